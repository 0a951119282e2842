"""Rule evaluation: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import evaluation
from fedscan.stages.gpu_lease import lease
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    teachers = str(Path(snakemake.input.teachers[0]).parent)
    learners = str(Path(snakemake.input.learners).parent)
    folder = str(Path(snakemake.output.points).parent)
    settings = json.loads(snakemake.params.key)
    kernels, key = settings["evaluation"]["kernels"], "synthetic.evaluation.kernels"
    with lease(kernels, snakemake.config["workflow"], report, key):
        evaluation.run(settings, teachers, learners, folder, report)
