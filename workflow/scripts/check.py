"""Rule check: unpack and call the stage."""

import json

from fedscan.pipeline import check
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    check.run(json.loads(snakemake.params.key), "results", snakemake.output[0], report)
