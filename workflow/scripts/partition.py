"""Rule partition: unpack and call the stage."""

import json
from pathlib import Path

from fedscan.experiments.corpus import partition
from fedscan.pipeline.runner import job

with job(snakemake.log[0]) as report:
    tokens = str(Path(snakemake.input.manifest).parent)
    folder = str(Path(snakemake.output.table).parent)
    partition.run(json.loads(snakemake.params.key), tokens, folder, report)
