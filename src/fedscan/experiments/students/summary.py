"""Stage ``student_tables``: all federated learners -> numbers beside the paper's, and figures."""

import pandas as pd

from fedscan.analysis.aligned_text import numbers_text
from fedscan.analysis.numbers import Number, numbers_table
from fedscan.experiments.students import numbers as student_numbers
from fedscan.experiments.students.figures import figures
from fedscan.experiments.students.grid import Cell, cell_path
from fedscan.experiments.students.numbers import PAPER, Students
from fedscan.experiments.students.summary_tables import ALL_STUDENT_RUNS
from fedscan.experiments.students.tables import STUDENT_ROUNDS, STUDENT_RUNS
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.stage import Job

SUMMARY = ("figure6a", "figure6b", "figure6c")


def run(job: Job) -> None:
    """Write the collected runs, the numbers and the figures.

    Args:
        job: settings: ``cells``, the list of (D, N, rho). Its folder receives all_student_runs,
            numbers (Parquet, CSV, text), a summary and figures.
    """
    settings, folder, students = job.settings, job.folder, job.results / "students"
    cells = {cell_path(Cell(*row)): Cell(*row)._asdict() for row in settings["cells"]}
    found = Students(
        parquet.collect(cells, students, STUDENT_RUNS),
        parquet.collect(cells, students, STUDENT_ROUNDS),
    )
    job.report(f"{len(found.runs)} runs, {len(found.rounds)} rounds")
    tail = student_numbers.tails(found)
    numbers: list[Number] = [
        *student_numbers.checks(found),
        *student_numbers.scaling(tail),
        *student_numbers.total_variation(found, tail),
        *student_numbers.token_level(found),
        *student_numbers.convergence(found),
    ]
    table = numbers_table(numbers, PAPER)
    provenance = {"settings": settings, "versions": versions()}
    parquet.write(folder / "all_student_runs.parquet", ALL_STUDENT_RUNS, found.runs, provenance)
    write_numbers(table, folder, provenance)
    shown = table[table["table"].isin(SUMMARY)]
    total = table[(table["table"] == "checks") & (table["row"] == "all")]
    atomic.write_text(folder / "summary.txt", numbers_text(pd.concat([total, shown])))
    for name, draw in figures(found, tail).items():
        save_figure(draw, folder / name)
