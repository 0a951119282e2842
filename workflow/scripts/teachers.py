"""Rule teachers: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.teachers import teachers
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.teachers).parent)
    teachers.run(json.loads(snakemake.params.key), folder, report)
