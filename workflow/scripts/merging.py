"""Rule merging: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.merging import summary as merging
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.merges).parent)
    merging.run(json.loads(snakemake.params.key), "results/merging", folder, report)
