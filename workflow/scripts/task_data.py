"""Rule task_data: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.merging import tasks as task_data
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.examples).parent)
    task_data.run(json.loads(snakemake.params.key), folder, report)
