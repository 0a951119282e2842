"""Sessa: attention inside a feedback loop, compared, diagnosed, and trained federatedly."""

from fedscan.experiments.sessa import config, plan, tables, theory_tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS

ROOM = "fedscan.experiments.sessa"
DEVICE = "sessa.training.device"

SESSA = Experiment(
    name="sessa",
    title="Sessa: attention inside a feedback loop",
    sections={"sessa": config.Sessa},
    rules=config.rules,
    stages={
        "sessa_data": Stage(f"{ROOM}.data"),
        "sessa_training": Stage(f"{ROOM}.training", device=DEVICE, resumes=True),
        "sessa_diagnostics": Stage(f"{ROOM}.diagnostics", device=DEVICE, resumes=True),
        "sessa_federated": Stage(f"{ROOM}.federated", device=DEVICE, resumes=True),
        "sessa_theory": Stage(f"{ROOM}.theory_study", resumes=True),
        "sessa_speed": Stage(f"{ROOM}.speed", device=DEVICE),
        "sessa": Stage(f"{ROOM}.summary"),
    },
    targets=("sessa",),
    tables=(
        tables.EXAMPLES,
        *tables.TRAINING_TABLES,
        *tables.DIAGNOSTIC_TABLES,
        *tables.FEDERATED_TABLES,
        theory_tables.CLAIMS,
        theory_tables.RETRIEVAL,
        tables.SPEED,
        NUMBERS._replace(places=("sessa/tables/numbers",)),
    ),
    files=plan.files,
    units=plan.units,
    results=("sessa/tables",),
    summaries=("sessa/tables/summary.txt",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=plan.PARTS,
    page=f"{ROOM}.page",
    reruns=(("Sessa's comparison", "sessa", "nothing"),),
)
