"""Rule student_tables: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.students import summary as student_tables
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.table).parent)
    student_tables.run(json.loads(snakemake.params.key), "results", folder, report)
