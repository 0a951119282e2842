"""Rule tokens: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.corpus import tokens
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.manifest).parent)
    tokens.run(json.loads(snakemake.params.key), folder, report)
