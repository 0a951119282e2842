"""Rule check: unpack and call the stage."""

import json

from fedscan.stages import check
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    check.run(json.loads(snakemake.params.key), "results", snakemake.output[0], report)
