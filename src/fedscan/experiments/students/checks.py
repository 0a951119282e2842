"""Checks of federated learners: complete, certified, no bound violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.students.grid import Cell, cell_path
from fedscan.experiments.students.tables import STUDENT_ROUNDS, STUDENT_RUNS
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the runs on every dataset.

    Args:
        settings: ``students`` (rows of D, N, rho, runs), ``student_codes`` (fingerprint per
            algorithm) and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        Outcomes.
    """
    for *cell, count in settings["students"]:
        yield from _students(cell_path(Cell(*cell)), count, settings, results)


def _students(path: str, count: int, settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    folder = results / "students" / path
    runs = parquet.read_frame(folder / "student_runs.parquet", STUDENT_RUNS)
    rounds = parquet.read_frame(folder / "student_rounds.parquet", STUDENT_ROUNDS)
    failed = int((runs["status"] == "failed").sum())
    detail = f"{len(runs)} of {count} federated learners, {failed} of them failed (recorded)"
    yield Check("one row per federated learner", path, len(runs) == count, detail)
    expected = int((runs["rounds"] + 1).sum())
    detail = f"{len(rounds)} of {expected} rows"
    yield Check("every round of federated learners", path, len(rounds) == expected, detail)
    outside = int((~runs["certified"].astype(bool)).sum())
    detail = f"{outside} federated learners left the stability set"
    yield Check("learners stay in the stability set", path, outside == 0, detail)
    broken = int(runs["violations"].sum())
    detail = f"{broken} violations in {int(runs['checks'].sum())} checks"
    yield Check("no bound violated", path, broken == 0, detail)
    codes = runs["algorithm"].map(settings["student_codes"])
    old = int((runs["code_hash"] != codes).sum())
    detail = f"{old} federated learners of other code"
    yield present_code(path, old, detail, settings["rerun_on_code_change"])
