"""Rule merging: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import merging
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.merges).parent)
    merging.run(json.loads(snakemake.params.key), "results/merging", folder, report)
