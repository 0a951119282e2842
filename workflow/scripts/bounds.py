"""Rule bounds: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.bounds import summary as bounds
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.table).parent)
    bounds.run(json.loads(snakemake.params.key), "results", folder, report)
