"""Checks of the synthetic study: datasets whole, learners certified, no bound violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedscan.experiments.students.grid import Cell, cell_path
from fedscan.experiments.teachers.datasets import read_datasets
from fedscan.io import parquet
from fedscan.models.selective_ssm.layout import Shape


class Check(NamedTuple):
    """One outcome; columns of table ``checks``."""

    check: str
    subject: str
    passed: bool
    detail: str


def synthetic_checks(settings: Mapping[str, Any], results: str) -> Iterator[Check]:
    """Check teachers, learners, evaluations and stacks.

    Args:
        settings: ``shapes`` (list of D, N), ``rhos``, ``sequence_length``, ``seeds``,
            ``bound_checkpoints``, ``learner_code``, ``students`` (rows of D, N, rho, runs),
            ``student_codes`` (fingerprint per algorithm) and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        Outcomes.
    """
    for d_input, d_state in settings["shapes"]:
        path = f"D={d_input}/N={d_state}"
        yield _teachers(Shape(d_input, d_state), path, settings, results)
        yield from _learners(path, settings, results)
        yield from _evaluation(path, settings, results)
    for *cell, count in settings["students"]:
        yield from _students(cell_path(Cell(*cell)), count, settings, results)
    stacks = parquet.read_frame(f"{results}/stacks/stacks.parquet", "stacks")
    broken = int(stacks["violations"].sum())
    detail = f"{broken} violations in {int(stacks['checks'].sum())} checks"
    yield Check("no bound violated", "stacks", broken == 0, detail)


def _teachers(shape: Shape, path: str, settings: Mapping[str, Any], results: str) -> Check:
    name, folder = "teachers' datasets are whole", f"{results}/teachers/{path}"
    try:
        found = read_datasets(folder, shape, settings["sequence_length"])
    except ValueError as error:
        return Check(name, path, False, str(error))
    same = sorted(found) == sorted(settings["rhos"])
    return Check(name, path, same, f"{len(found)} of {len(settings['rhos'])}, digests verified")


def _learners(path: str, settings: Mapping[str, Any], results: str) -> Iterator[Check]:
    rows = parquet.read_frame(Path(results, "learners", path, "learners.parquet"), "learners")
    wanted = len(settings["rhos"]) * len(settings["seeds"])
    failed = int((rows["status"] == "failed").sum())
    detail = f"{len(rows)} of {wanted} learners, {failed} of them failed (recorded)"
    yield Check("one row per learner", path, len(rows) == wanted, detail)
    outside = int((~rows["certified"].astype(bool)).sum())
    detail = f"{outside} learners left the stability set"
    yield Check("learners stay in the stability set", path, outside == 0, detail)
    old = int((rows["code_hash"] != settings["learner_code"]).sum())
    accepted = not old or not settings["rerun_on_code_change"]
    yield Check("results of the present code", path, accepted, f"{old} learners of other code")


def _evaluation(path: str, settings: Mapping[str, Any], results: str) -> Iterator[Check]:
    folder = Path(results, "evaluation", path)
    points, curvature, pairs = (
        parquet.read_frame(folder / f"{name}.parquet", name)
        for name in ("points", "curvature", "trajectories")
    )
    per_run = len(settings["bound_checkpoints"]) + 1
    wanted = len(settings["rhos"]) * len(settings["seeds"]) * per_run
    detail = f"{len(points)} of {wanted} parameter points"
    yield Check("every point evaluated", path, len(points) == wanted, detail)
    # By name, so that a new check is counted wherever its column is.
    counts = [frame.filter(like="violation").astype(int) for frame in (points, curvature, pairs)]
    broken = sum(int(frame.to_numpy().sum()) for frame in counts)
    stored = parquet.read(folder / "violations.parquet", "violations").num_rows
    detail = f"{broken} violations; {stored} stored with what reproduces them"
    yield Check("no bound violated", path, broken == stored == 0, detail)


def _students(path: str, count: int, settings: Mapping[str, Any], results: str) -> Iterator[Check]:
    folder = Path(results, "students", path)
    runs = parquet.read_frame(folder / "student_runs.parquet", "student_runs")
    rounds = parquet.read_frame(folder / "student_rounds.parquet", "student_rounds")
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
    accepted = not old or not settings["rerun_on_code_change"]
    detail = f"{old} federated learners of other code"
    yield Check("results of the present code", path, accepted, detail)
