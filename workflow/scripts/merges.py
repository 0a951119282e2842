"""Rule merges: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import merges
from fedscan.stages.gpu_lease import lease
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    folder = Path(snakemake.output[0]).parent
    progress = Path("results/checkpoints", folder.relative_to("results"), "rows.json")
    settings = json.loads(snakemake.params.key)
    with lease(settings["device"], snakemake.config["workflow"], report, "merging.device"):
        merges.run(settings, "results/merging", str(folder), str(progress), report)
