"""Rule html_report: unpack and call the stage."""

import json

from fedscan.report import build as html_report
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    html_report.run(json.loads(snakemake.params.key), "results", snakemake.output[0], report)
