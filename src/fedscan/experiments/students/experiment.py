"""The students: federated learners on the teachers' datasets."""

from fedscan.experiments.students import config, plan, summary_tables, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS, VIOLATIONS

ROOM = "fedscan.experiments.students"

STUDENTS = Experiment(
    name="students",
    title="Federated learners on the teachers' datasets",
    sections={"synthetic.federated": config.Students},
    rules=config.rules,
    stages={
        "students": Stage(f"{ROOM}.training", resumes=True),
        "student_tables": Stage(f"{ROOM}.summary"),
    },
    targets=("student_tables",),
    tables=(
        tables.STUDENT_RUNS,
        tables.STUDENT_ROUNDS,
        summary_tables.ALL_STUDENT_RUNS,
        NUMBERS._replace(places=("student_tables/numbers",)),
        VIOLATIONS._replace(places=(f"{tables.CELL_FOLDER}/violations",)),
    ),
    files=plan.files,
    units=plan.units,
    listing=plan.listing,
    results=("student_tables",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("students",),
    page=f"{ROOM}.page",
    reruns=(("federated learners", "student_tables", "teachers"),),
)
