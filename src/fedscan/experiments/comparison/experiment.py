"""The comparison: federated algorithms on Mamba2 language models."""

from fedscan.experiments.comparison import config, plan, summary_tables, tables
from fedscan.pipeline.experiment import Experiment, Preview
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS

ROOM = "fedscan.experiments.comparison"

COMPARISON = Experiment(
    name="comparison",
    title="Algorithms compared",
    sections={
        "model": config.Model,
        "training": config.Training,
        "studies": config.STUDIES,
        "analysis": config.Analysis,
    },
    rules=config.rules,
    stages={
        "federated": Stage(f"{ROOM}.training", device="training.device", resumes=True),
        "compare": Stage(f"{ROOM}.summary"),
        "practice": Stage(f"{ROOM}.practice"),
    },
    targets=("compare", "practice"),
    tables=(
        *tables.JOB_TABLES,
        summary_tables.COMPARISON,
        summary_tables.ALL_RUNS,
        summary_tables.ALL_ROUNDS,
        summary_tables.QUANTITIES,
        NUMBERS._replace(places=("compare/numbers", "practice/numbers")),
    ),
    files=plan.files,
    units=plan.units,
    breakdown=plan.breakdown,
    listing=plan.listing,
    results=("compare", "practice"),
    summaries=("compare/comparison.txt",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("compare",),
    page=f"{ROOM}.page",
    previews={
        "compare": Preview(plan.compare, "compare"),
        "practice": Preview(plan.practice, "practice", {"compared": "compare"}),
    },
    trained="federated",
    progress=f"{ROOM}.progress",
    cost=f"{ROOM}.cost",
    reruns=(
        ("the comparison", "compare", "all training jobs"),
        ("what theory sees in practice", "practice", "all training jobs"),
    ),
)
