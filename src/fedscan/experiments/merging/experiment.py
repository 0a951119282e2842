"""Merging: specialists of one base, merged in one shot."""

from fedscan.experiments.merging import config, merge_tables, plan, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS

ROOM = "fedscan.experiments.merging"
DEVICE = "merging.device"

MERGING = Experiment(
    name="merging",
    title="One-shot model merging",
    sections={"merging": config.Merging},
    rules=config.rules,
    stages={
        "task_data": Stage(f"{ROOM}.tasks"),
        "merging_base": Stage(f"{ROOM}.base"),
        "specialists": Stage(f"{ROOM}.specialists", device=DEVICE, resumes=True),
        "specialist_accuracy": Stage(f"{ROOM}.accuracy", device=DEVICE, resumes=True),
        "merges": Stage(f"{ROOM}.merges", device=DEVICE, resumes=True),
        "merging": Stage(f"{ROOM}.summary"),
    },
    targets=("merging",),
    tables=(
        tables.TASK_EXAMPLES,
        tables.TASK_LABELS,
        tables.MERGING_BASE,
        tables.SPECIALISTS,
        merge_tables.SPECIALIST_ACCURACY,
        merge_tables.MERGES,
        merge_tables.DISPLACEMENTS,
        merge_tables.TASK_VECTORS,
        merge_tables.ALL_SPECIALIST_ACCURACY,
        merge_tables.ALL_MERGES,
        merge_tables.ALL_DISPLACEMENTS,
        merge_tables.ALL_TASK_VECTORS,
        NUMBERS._replace(places=("merging/tables/numbers",)),
    ),
    files=plan.files,
    units=plan.units,
    results=("merging/tables",),
    summaries=("merging/tables/summary.txt",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("specialists", "specialist_accuracy", "merges"),
)
