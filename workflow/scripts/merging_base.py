"""Rule merging_base: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import merging_base
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    folder = str(Path(snakemake.output.table).parent)
    merging_base.run(json.loads(snakemake.params.key), "results/federated", folder, report)
