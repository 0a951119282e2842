"""Rule html_report: unpack and call the stage."""

import json

from fedscan.stages import html_report
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    html_report.run(json.loads(snakemake.params.key), "results", snakemake.output[0], report)
