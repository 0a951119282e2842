"""Rule compare: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.comparison import summary as compare
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.table).parent)
    compare.run(json.loads(snakemake.params.key), "results", folder, report)
