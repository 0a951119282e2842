"""Rule federated: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.comparison import training as federated
from fedscan.pipeline.gpu_lease import lease
from fedscan.pipeline.runner import job, refuse_future

with job(snakemake.log[0]) as report:
    refuse_future(snakemake.input)
    folder = Path(snakemake.output.runs).parent
    checkpoints = Path("results/checkpoints", folder.relative_to("results"))
    partition = str(Path(snakemake.input[0]).parent)
    settings = json.loads(snakemake.params.key)
    with lease(settings["training"]["device"], snakemake.config["workflow"], report):
        federated.run(settings, partition, str(folder), str(checkpoints), report)
