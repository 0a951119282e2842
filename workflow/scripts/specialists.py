"""Rule specialists: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import specialists
from fedscan.stages.gpu_lease import lease
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    folder = Path(snakemake.output[0]).parent
    checkpoints = Path("results/checkpoints", folder.relative_to("results"))
    base = str(Path(snakemake.input.model).parent)
    examples = str(Path(snakemake.input.examples).parent)
    settings = json.loads(snakemake.params.key)
    with lease(settings["device"], snakemake.config["workflow"], report, "merging.device"):
        specialists.run(settings, base, examples, str(folder), str(checkpoints), report)
