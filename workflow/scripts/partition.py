"""Rule partition: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.stages import partition
from fedscan.stages.job import job

with job(snakemake.log[0]) as report:
    tokens = str(Path(snakemake.input.manifest).parent)
    folder = str(Path(snakemake.output.table).parent)
    partition.run(json.loads(snakemake.params.key), tokens, folder, report)
