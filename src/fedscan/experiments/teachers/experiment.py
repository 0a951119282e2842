"""The teachers: frozen selective SSMs that generate datasets."""

from fedscan.experiments.teachers import config, plan, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage

ROOM = "fedscan.experiments.teachers"

TEACHERS = Experiment(
    name="teachers",
    title="Teachers",
    sections={"synthetic": config.Synthetic},
    stages={"teachers": Stage(f"{ROOM}.teachers")},
    targets=(),
    tables=(tables.TEACHERS, tables.CANDIDATES, tables.TEACHER_SEQUENCES),
    files=plan.files,
    units=plan.units,
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("teachers",),
    page=f"{ROOM}.page",
)
