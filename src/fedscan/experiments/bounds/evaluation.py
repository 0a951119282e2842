"""Stage ``evaluation``: gradients and curvature at checkpoints and teachers against the bounds.

A violation stops nothing: it is counted, stored with what reproduces it, and fails ``check``.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedscan.experiments.bounds.comparisons import bounds_of_points, compared, measured
from fedscan.experiments.bounds.evaluation_tables import CURVATURE, GRADIENTS, POINTS, TRAJECTORIES
from fedscan.experiments.bounds.measures import FIXED, MEASURES, Sequences
from fedscan.experiments.bounds.point_bounds import PointBounds, pair_bounds, point_bounds
from fedscan.experiments.bounds.tables import CHECKPOINTS
from fedscan.experiments.teachers.datasets import Dataset, read_datasets
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.kernels import sequence_gradients
from fedscan.models.selective_ssm.layout import BLOCKS, Shape
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import VIOLATIONS
from fedscan.pipeline.violations import TOLERANCE, Mark, Violations
from fedscan.seeds import generator

MEASURED = (POINTS, GRADIENTS, CURVATURE, TRAJECTORIES)
TABLES = (*MEASURED, VIOLATIONS)


class Point(NamedTuple):
    """A parameter point to evaluate."""

    seed: int
    checkpoint: str
    update: int | None
    params: np.ndarray  # (parameters) float64


def run(job: Job) -> None:
    """Evaluate all points of one (D, N) and write the tables.

    Args:
        job: settings: ``d_input``, ``d_state``, ``sequence_length``, sections ``learners`` and
            ``evaluation``; inputs ``teachers`` and ``learners``, the folders written by these
            stages. Its folder receives a Parquet file for each of ``TABLES``.
    """
    settings = job.settings
    shape = Shape(settings["d_input"], settings["d_state"])
    datasets = read_datasets(job.inputs["teachers"], shape, settings["sequence_length"])
    file = job.inputs["learners"] / "checkpoints.parquet"
    checkpoints = parquet.read(file, CHECKPOINTS).to_pandas()
    frames: dict[str, list[pd.DataFrame]] = {table.name: [] for table in MEASURED}
    violations = Violations()
    for rho, data in datasets.items():
        points = _points(data, checkpoints, settings["learners"])
        for name, frame in _evaluate(data, points, settings["evaluation"], violations).items():
            frame.insert(0, "rho", rho)
            frames[name].append(frame)
        job.report(f"rho {rho}: {len(points)} points, {violations.count} violations so far")
    provenance = {"settings": settings, "versions": versions()}
    for table in MEASURED:
        rows = pd.concat(frames[table.name], ignore_index=True)
        parquet.write(job.folder / f"{table.name}.parquet", table, rows, provenance)
    parquet.write(job.folder / "violations.parquet", VIOLATIONS, violations.rows, provenance)


def _points(data: Dataset, checkpoints: pd.DataFrame, learners: Mapping[str, Any]) -> list[Point]:
    """Return the bound checkpoints of every learner and, once per learner, the teacher."""
    found = []
    mine = checkpoints[checkpoints["rho"] == data.rho]
    for seed in learners["seeds"]:
        own = mine[mine["seed"] == seed].set_index("update")["parameters"]
        for update in sorted(set(learners["bound_checkpoints"]) & set(own.index)):
            params = np.asarray(own[update], np.float64)
            found.append(Point(seed, _label(update, learners["updates"]), update, params))
        found.append(Point(seed, "frozen_teacher", None, data.params.astype(np.float64)))
    return found


def _label(update: int, last: int) -> str:
    return {0: "initialization", last: "final"}.get(update, "intermediate")


def _evaluate(
    data: Dataset, points: list[Point], evaluation: Mapping[str, Any], violations: Violations
) -> dict[str, pd.DataFrame]:
    stacked = np.stack([point.params for point in points])
    bounds = point_bounds(
        stacked, data.shape, data.margins, data.rho, evaluation["step"], data.test.shape[1]
    )
    chosen = np.sort(
        generator(FIXED, "smoothness sequences").permutation(len(data.test))[
            : evaluation["sequences"]
        ]
    )
    frames: dict[str, list[pd.DataFrame]] = {"points": [], "gradients": [], "curvature": []}
    teacher: dict[str, pd.DataFrame] | None = None
    for index, point in enumerate(points):
        if point.update is None and teacher is not None:
            found = teacher  # one teacher, one evaluation; a row for each learner beside it
        else:
            found = _at_point(data, point, bounds.at(index), chosen, evaluation, violations)
            teacher = found if point.update is None else teacher
        for table, frame in found.items():
            frames[table].append(frame.assign(**_key(point)))
    joined = {table: pd.concat(parts, ignore_index=True) for table, parts in frames.items()}
    return joined | {"trajectories": _trajectories(data, points, chosen, violations)}


def _key(point: Point) -> dict[str, Any]:
    update = pd.array([point.update], dtype="Int64")[0]
    return {"seed": point.seed, "checkpoint": point.checkpoint, "update": update}


def _at_point(
    data: Dataset,
    point: Point,
    bounds: PointBounds,
    chosen: np.ndarray,
    evaluation: Mapping[str, Any],
    violations: Violations,
) -> dict[str, pd.DataFrame]:
    """Measure at a point and compare with its bounds.

    Args:
        data: the teacher's dataset.
        point: the point.
        bounds: of this point.
        chosen: test sequences whose Hessians are measured.
        evaluation: section of the configuration.
        violations: collects what is above a bound.

    Returns:
        Table -> its rows of this point.
    """
    subject = {"rho": data.rho, **{k: v for k, v in point._asdict().items() if k != "params"}}
    mark = violations.at({**data.shape._asdict(), **subject}, point.params, data.test)
    losses, gradients = sequence_gradients(evaluation["kernels"])(
        point.params, data.test, data.shape
    )
    everything = Sequences(point.params, data.test, data.shape, losses, gradients, evaluation)
    index = np.arange(len(losses))
    sequences, over = _compare(True, everything, bounds, index, mark)
    curvature, flags = _compare(False, everything.only(chosen), bounds, chosen, mark)
    beside = {c.bound.name: bounds.values[c.bound.name] for c in compared(False) if c.beside}
    batch = float(np.linalg.norm(gradients.mean(axis=0)))
    limits = (sequences["gradient_norm"].mean(), bounds.values["G"], bounds.values["G_tight"])
    row = {
        **_summary(sequences),
        "batch_gradient": batch,
        **{name: int(above.sum()) for name, above in over.items()},
        "batch_violations": sum(batch > limit * (1 + TOLERANCE) for limit in limits),
        **_bound_columns(bounds),
        **data.margins._asdict(),
    }
    return {
        "points": pd.DataFrame([row]),
        "gradients": pd.DataFrame({"sequence": index, **sequences}),
        "curvature": pd.DataFrame(
            {"sequence": chosen, **curvature, **bounds.holds, **beside, **flags}
        ),
    }


def _compare(
    every: bool, at: Sequences, bounds: PointBounds, index: np.ndarray, mark: Mark
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return what is measured, by column, and what is above its bound, by column of the flag."""
    columns: dict[str, np.ndarray] = {}
    for quantity in measured(every):
        columns |= MEASURES[quantity.name](at)
    over = {}
    for comparison in compared(every):
        name, bound = comparison.measured.name, comparison.bound.name
        condition = comparison.condition
        over[comparison.flag.name] = (
            mark(f"{name} <= {bound}", columns[name], bounds.values[bound], index)
            if condition is None or bounds.holds[condition.column.name]
            else np.zeros(len(index), bool)
        )
    return columns, over


def _summary(sequences: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the columns of a point that describe its sequences' gradients."""
    total = sequences["gradient_norm"]
    norms = np.stack([sequences[f"gradient_{block}"] for block in BLOCKS], axis=1)
    with np.errstate(invalid="ignore"):  # a gradient of zero has no shares
        shares = np.median(norms**2 / total[:, None] ** 2, axis=0)
    return {
        "sequences": len(total),
        "gradient_median": float(np.median(total)),
        "gradient_mean": float(total.mean()),
        "gradient_max": float(total.max()),
        **{f"share_{block}": float(share) for block, share in zip(BLOCKS, shares, strict=True)},
    }


def _bound_columns(bounds: PointBounds) -> dict[str, Any]:
    names = [column.name for every in (True, False) for column in bounds_of_points(every)]
    overflow = ",".join(bounds.overflow) if np.isinf(bounds.values["L"]) else ""
    return {**bounds.facts, **{n: bounds.values[n] for n in names}, "overflow": overflow}


def _trajectories(
    data: Dataset, points: list[Point], chosen: np.ndarray, violations: Violations
) -> pd.DataFrame:
    """Check Lipschitz constants between consecutive checkpoints of a learner."""
    tokens = np.ascontiguousarray(data.test[chosen])
    rows = []
    for a, b in _pairs(points):
        first, second = (
            cpu.sequence_gradients(point.params, tokens, data.shape)[1] for point in (a, b)
        )
        bound = pair_bounds(a.params[None], b.params[None], data.shape, data.rho)
        distance = float(bound.distance[0])
        both = np.stack([a.params, b.params])
        at_both = point_bounds(both, data.shape, data.margins, data.rho, 0.0, tokens.shape[1])
        g = at_both.values["G"]
        changes = np.linalg.norm(second - first, axis=1) / distance
        bound_ratio = abs(float(g[1] - g[0])) / distance
        subject = {"rho": data.rho, "seed": a.seed, "update": a.update, "next_update": b.update}
        mark = violations.at({**data.shape._asdict(), **subject}, both.ravel(), data.test)
        over = mark("gradient_ratio <= L_distance", changes, bound.smoothness[0], chosen)
        over_bound = mark("bound_ratio <= L_G_distance", [bound_ratio], bound.variation[0], [0])
        rows.append(
            {
                **{k: v for k, v in subject.items() if k != "rho"},
                "distance": distance,
                "gradient_ratio": float(changes.max()),
                "L_distance": float(bound.smoothness[0]),
                "bound_ratio": bound_ratio,
                "L_G_distance": float(bound.variation[0]),
                "violation_gradient": bool(over.any()),
                "violation_bound": bool(over_bound.any()),
            }
        )
    return pd.DataFrame(rows)


def _pairs(points: list[Point]) -> Iterator[tuple[Point, Point]]:
    for a, b in itertools.pairwise(points):
        if a.seed == b.seed and a.update is not None and b.update is not None:
            yield a, b
