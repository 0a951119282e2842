"""Checks of learners, evaluations and stacks: certified, complete, no bound violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.bounds.evaluation_tables import CURVATURE, POINTS, STACKS, TRAJECTORIES
from fedscan.experiments.bounds.tables import LEARNERS
from fedscan.experiments.teachers.grid import shape_path
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code
from fedscan.pipeline.tables import VIOLATIONS


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check learners, evaluations and stacks.

    Args:
        settings: ``shapes`` (list of D, N), ``rhos``, ``seeds``, ``bound_checkpoints``,
            ``learner_code`` and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        Outcomes.
    """
    for shape in settings["shapes"]:
        path = shape_path(*shape)
        yield from _learners(path, settings, results)
        yield from _evaluation(path, settings, results)
    stacks = parquet.read_frame(results / "stacks/stacks.parquet", STACKS)
    broken = int(stacks["violations"].sum())
    detail = f"{broken} violations in {int(stacks['checks'].sum())} checks"
    yield Check("no bound violated", "stacks", broken == 0, detail)


def _learners(path: str, settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    rows = parquet.read_frame(results / "learners" / path / "learners.parquet", LEARNERS)
    wanted = len(settings["rhos"]) * len(settings["seeds"])
    failed = int((rows["status"] == "failed").sum())
    detail = f"{len(rows)} of {wanted} learners, {failed} of them failed (recorded)"
    yield Check("one row per learner", path, len(rows) == wanted, detail)
    outside = int((~rows["certified"].astype(bool)).sum())
    detail = f"{outside} learners left the stability set"
    yield Check("learners stay in the stability set", path, outside == 0, detail)
    old = int((rows["code_hash"] != settings["learner_code"]).sum())
    detail = f"{old} learners of other code"
    yield present_code(path, old, detail, settings["rerun_on_code_change"])


def _evaluation(path: str, settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    folder = results / "evaluation" / path
    points, curvature, pairs = (
        parquet.read_frame(folder / f"{table.name}.parquet", table)
        for table in (POINTS, CURVATURE, TRAJECTORIES)
    )
    per_run = len(settings["bound_checkpoints"]) + 1
    wanted = len(settings["rhos"]) * len(settings["seeds"]) * per_run
    detail = f"{len(points)} of {wanted} parameter points"
    yield Check("every point evaluated", path, len(points) == wanted, detail)
    # By name, so that a new check is counted wherever its column is.
    counts = [frame.filter(like="violation").astype(int) for frame in (points, curvature, pairs)]
    broken = sum(int(frame.to_numpy().sum()) for frame in counts)
    stored = parquet.read(folder / "violations.parquet", VIOLATIONS).num_rows
    detail = f"{broken} violations; {stored} stored with what reproduces them"
    yield Check("no bound violated", path, broken == stored == 0, detail)
