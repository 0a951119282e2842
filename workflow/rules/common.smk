import os
import re
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

try:
    from fedscan.config import files as config_files
    from fedscan.experiments import whole
    from fedscan.experiments.registry import EXPERIMENTS, STAGES
    from fedscan.io.provenance import canonical_json
    from fedscan.labels import label
    from fedscan.pipeline.keys import stage_key
    from fedscan.report.contents import figures
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{error}: install the package first: pip install -c constraints.txt -e ."
    )

STARTED = time.time()
# Jobs inherit it. Jupyter's, which what it starts inherits, is not installed here: matplotlib then
# fails to import. Figures are made without a backend.
os.environ.pop("MPLBACKEND", None)
# In merge order: Snakemake lists files of the command line before the default they override.
CONFIG_FILES = sorted(
    map(str, workflow.configfiles), key=lambda name: name != "config/config.yaml"
)
try:
    # Read again, not Snakemake's `config`: there 1 and "1" are two keys, and every number inside
    # an entry of --config is text.
    CONFIG = config_files.load(
        CONFIG_FILES, workflow.config_settings.config_args
    ).model_dump(mode="json")
    # What scripts see of it.
    config.clear()
    config.update(CONFIG)
except ValueError as error:
    raise WorkflowError(f"the configuration is not valid:\n{error}")


onerror:
    # When a job that adds to its tables fails, Snakemake restores them and forgets its record of
    # them, so that it would take them for finished: made older than their inputs, they are not.
    for job in workflow.dag.needrun_jobs():
        for file in job.output:
            if is_flagged(file, "update") and os.path.exists(file):
                os.utime(file, (1, 1))
