"""The corpus: from text to the clients' token sets."""

from fedscan.experiments.corpus import config, plan, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage

ROOM = "fedscan.experiments.corpus"

CORPUS = Experiment(
    name="corpus",
    title="Text and partitions",
    sections={
        "data": config.Data,
        "tokenizer": config.Tokenizer,
        "partition": config.Partition,
    },
    rules=config.rules,
    stages={
        "tokens": Stage(f"{ROOM}.tokens"),
        "partition": Stage(f"{ROOM}.partition"),
    },
    targets=(),
    tables=(tables.DOCUMENTS, tables.TOKENS, tables.PARTITION, tables.SEQUENCES),
    files=plan.files,
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("partition",),
    page=f"{ROOM}.page",
    reruns=(
        (
            "one partition",
            "results/partition/setting=1/beta=1/clients=4/train.parquet",
            "tokens",
        ),
    ),
)
