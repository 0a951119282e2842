"""Rule merges: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.merging import merges
from fedscan.pipeline.gpu_lease import lease
from fedscan.pipeline.runner import job, refuse_future

with job(snakemake.log[0]) as report:
    refuse_future(snakemake.input)
    folder = Path(snakemake.output[0]).parent
    progress = Path("results/checkpoints", folder.relative_to("results"), "rows.json")
    settings = json.loads(snakemake.params.key)
    with lease(settings["device"], snakemake.config["workflow"], report, "merging"):
        merges.run(settings, "results/merging", str(folder), str(progress), report)
