"""The stage of whatever rule runs this: see fedscan.pipeline.runner."""

from fedscan.experiments.registry import STAGES
from fedscan.pipeline.runner import main

main(snakemake, STAGES[snakemake.rule])
