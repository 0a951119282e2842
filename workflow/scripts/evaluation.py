"""Rule evaluation: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.bounds import evaluation
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    teachers = str(Path(snakemake.input.teachers[0]).parent)
    learners = str(Path(snakemake.input.learners).parent)
    folder = str(Path(snakemake.output.points).parent)
    evaluation.run(json.loads(snakemake.params.key), teachers, learners, folder, report)
