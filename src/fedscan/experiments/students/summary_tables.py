"""Tables made of all federated learners."""

from fedscan.experiments.students.tables import STUDENT_RUNS
from fedscan.io.tables import FLOAT, INT, Column, Table

ALL_STUDENTS = (
    Column("d_input", INT, "-", "input size D"),
    Column("d_state", INT, "-", "state size N"),
    Column("rho", FLOAT, "-", "stability limit"),
)

ALL_STUDENT_RUNS = Table(
    "all_student_runs",
    (*ALL_STUDENTS, *STUDENT_RUNS.columns),
    ("student_tables/all_student_runs",),
)
