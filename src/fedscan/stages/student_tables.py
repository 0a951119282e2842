"""Stage ``student_tables``: all federated learners -> numbers beside the paper's, and figures."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedscan.analysis import student_numbers
from fedscan.analysis.numbers import Number, numbers_table
from fedscan.analysis.numbers_text import numbers_text
from fedscan.analysis.student_figures import figures
from fedscan.analysis.student_numbers import PAPER, Students
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.number_files import write_numbers
from fedscan.student_grid import Cell, cell_path

SUMMARY = ("checks", "figure6a", "figure6b", "figure6c")


def run(settings: Mapping[str, Any], results: str, folder: str, report: Log) -> None:
    """Write the collected runs, the numbers and the figures.

    Args:
        settings: ``cells``, the list of (D, N, rho).
        results: folder of all results.
        folder: receives all_student_runs, numbers (Parquet, CSV, text), a summary and figures.
        report: the job's log.
    """
    cells = [Cell(*row) for row in settings["cells"]]
    found = Students(
        _collect(results, cells, "student_runs"), _collect(results, cells, "student_rounds")
    )
    report(f"{len(found.runs)} runs, {len(found.rounds)} rounds")
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
    parquet.write(f"{folder}/all_student_runs.parquet", "all_student_runs", found.runs, provenance)
    write_numbers(table, folder, provenance)
    shown = table[table["table"].isin(SUMMARY) & (table["table"] != "checks")]
    total = table[(table["table"] == "checks") & (table["row"] == "all")]
    atomic.write_text(f"{folder}/summary.txt", numbers_text(pd.concat([total, shown])))
    for name, draw in figures(found, tail).items():
        save_figure(draw, f"{folder}/{name}")


def _collect(results: str, cells: list[Cell], table: str) -> pd.DataFrame:
    """Join the tables of all cells, with the keys of their paths as columns."""
    frames = []
    for cell in cells:
        frame = parquet.read_frame(f"{results}/students/{cell_path(cell)}/{table}.parquet", table)
        frames.append(frame.assign(**cell._asdict()))
    return pd.concat(frames, ignore_index=True)
