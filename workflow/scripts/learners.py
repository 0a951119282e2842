"""Rule learners: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.bounds import learners
from fedscan.pipeline.runner import job, refuse_future

with job(snakemake.log[0]) as report:
    refuse_future(snakemake.input)
    folder = Path(snakemake.output.learners).parent
    checkpoints = Path("results/checkpoints", folder.relative_to("results"))
    teachers = str(Path(snakemake.input[0]).parent)
    settings = json.loads(snakemake.params.key)
    learners.run(settings, teachers, str(folder), str(checkpoints), report)
