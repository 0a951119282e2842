"""Rule stacks: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.bounds import stacks
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    teachers = str(Path(snakemake.input[0]).parent)
    folder = str(Path(snakemake.output.stacks).parent)
    stacks.run(json.loads(snakemake.params.key), teachers, folder, report)
