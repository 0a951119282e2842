"""Rule merging_base: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.merging import base as merging_base
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.table).parent)
    merging_base.run(json.loads(snakemake.params.key), "results/federated", folder, report)
