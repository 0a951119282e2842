"""Rule practice: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.comparison import practice
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    compared, folder = (str(Path(f).parent) for f in (snakemake.input.table, snakemake.output.table))
    practice.run(json.loads(snakemake.params.key), "results", compared, folder, report)
