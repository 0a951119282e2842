"""Stage ``evaluation``: gradients and curvature at checkpoints and teachers against the bounds.

A violation stops nothing: it is counted, stored with what reproduces it, and fails ``check``.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedscan.experiments.bounds.evaluation_tables import CURVATURE, GRADIENTS, POINTS, TRAJECTORIES
from fedscan.experiments.bounds.point_bounds import PointBounds, pair_bounds, point_bounds
from fedscan.experiments.bounds.tables import CHECKPOINTS
from fedscan.experiments.teachers.datasets import Dataset, read_datasets
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.measure.curvature import HessianNorms, hessian_norms
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.kernels import sequence_gradients
from fedscan.models.selective_ssm.layout import BLOCKS, Shape, block_norms
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import VIOLATIONS
from fedscan.pipeline.violations import TOLERANCE, Violations
from fedscan.seeds import generator

MEASURED = (POINTS, GRADIENTS, CURVATURE, TRAJECTORIES)
TABLES = (*MEASURED, VIOLATIONS)
# Seeds of what is fixed over all points: sequences, directions, first vectors.
FIXED = 0


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
            found = _at_point(data, point, bounds, index, chosen, evaluation, violations)
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
    index: int,
    chosen: np.ndarray,
    evaluation: Mapping[str, Any],
    violations: Violations,
) -> dict[str, pd.DataFrame]:
    subject = {"rho": data.rho, **{k: v for k, v in point._asdict().items() if k != "params"}}
    mark = violations.at({**data.shape._asdict(), **subject}, point.params, data.test)
    measure = sequence_gradients(evaluation["kernels"])
    losses, gradients = measure(point.params, data.test, data.shape)
    norms = block_norms(gradients, data.shape)
    total = np.sqrt(np.sum(norms**2, axis=1))
    batch = float(np.linalg.norm(gradients.mean(axis=0)))
    g, tight = float(bounds.G[index]), float(bounds.G_tight[index])
    over = mark("gradient_norm <= G", total, g)
    over_tight = mark("gradient_norm <= G_tight", total, tight)
    limits = (float(total.mean()), g, tight)
    row = {
        **_summary(norms, batch),
        "violations": int(over.sum()),
        "violations_tight": int(over_tight.sum()),
        "batch_violations": sum(batch > limit * (1 + TOLERANCE) for limit in limits),
    }
    columns = {f"gradient_{block}": norms[:, i] for i, block in enumerate(BLOCKS)}
    sequences = pd.DataFrame(
        {"sequence": np.arange(len(total)), "loss": losses, **columns, "gradient_norm": total}
    )
    curvature = _curvature(data, point, bounds, index, chosen, gradients[chosen], evaluation, mark)
    return {
        "points": pd.DataFrame([row | _bound_columns(bounds, index, data)]),
        "gradients": sequences,
        "curvature": curvature,
    }


def _summary(norms: np.ndarray, batch: float) -> dict[str, Any]:
    """Return the columns of a point that describe its sequences' gradients."""
    total = np.sqrt(np.sum(norms**2, axis=1))
    with np.errstate(invalid="ignore"):  # a gradient of zero has no shares
        shares = np.median(norms**2 / total[:, None] ** 2, axis=0)
    return {
        "sequences": len(total),
        "gradient_median": float(np.median(total)),
        "gradient_mean": float(total.mean()),
        "gradient_max": float(total.max()),
        "batch_gradient": batch,
        **{f"share_{block}": float(share) for block, share in zip(BLOCKS, shares, strict=True)},
    }


def _bound_columns(bounds: PointBounds, index: int, data: Dataset) -> dict[str, Any]:
    names = ("k_delta", "k_b", "G", "G_tight", "recurrent_share", "L", "L_tight", "L_step")
    names = (*names, "gamma_hat", "delta_hat", "rho_hat")
    columns = {
        name: float(np.broadcast_to(getattr(bounds, name), len(bounds.G))[index]) for name in names
    }
    norms = zip(BLOCKS, bounds.norms, strict=True)
    columns |= {f"norm_{block}": float(norm[index]) for block, norm in norms}
    overflow = ",".join(dict.fromkeys(bounds.overflow)) if np.isinf(columns["L"]) else ""
    return columns | data.margins._asdict() | {"overflow": overflow}


def _curvature(
    data: Dataset,
    point: Point,
    bounds: PointBounds,
    index: int,
    chosen: np.ndarray,
    gradients: np.ndarray,
    evaluation: Mapping[str, Any],
    mark: Any,
) -> pd.DataFrame:
    """Hessian norms and finite differences at the chosen test sequences."""
    tokens = np.ascontiguousarray(data.test[chosen])
    hessians = _hessians(point.params, tokens, data.shape, evaluation)
    ratios = _differences(point.params, tokens, data.shape, gradients, evaluation["step"])
    applicable = bool(bounds.applicable[index])
    over = {
        "violation_hessian": mark("hessian_norm <= L", hessians.norms, bounds.L[index], chosen),
        "violation_tight": mark(
            "hessian_norm <= L_tight", hessians.norms, bounds.L_tight[index], chosen
        ),
        "violation_difference": (
            mark("difference_ratio <= L_step", ratios, bounds.L_step[index], chosen)
            if applicable
            else np.zeros(len(chosen), bool)
        ),
        "violation_own": mark("difference_ratio <= own_bound", ratios, bounds.own[index], chosen),
    }
    columns = {"hessian_norm": hessians.norms, **hessians._asdict(), "difference_ratio": ratios}
    del columns["norms"]
    own = float(bounds.own[index])
    return pd.DataFrame(
        {"sequence": chosen, **columns, "applicable": applicable, "own_bound": own, **over}
    )


def _hessians(
    params: np.ndarray, tokens: np.ndarray, shape: Shape, evaluation: Mapping[str, Any]
) -> HessianNorms:
    starts = generator(FIXED, "power iteration").normal(size=(len(tokens), shape.parameters))

    def products(directions: np.ndarray, active: np.ndarray) -> np.ndarray:
        return cpu.hessian_products(params, directions, np.ascontiguousarray(tokens[active]), shape)

    return hessian_norms(products, starts, evaluation["iterations"], evaluation["tolerance"])


def _differences(
    params: np.ndarray, tokens: np.ndarray, shape: Shape, gradients: np.ndarray, step: float
) -> np.ndarray:
    """Return per sequence the largest finite-difference ratio of three unit directions."""
    ratios = []
    for direction in generator(FIXED, "directions").normal(size=(2, shape.parameters)):
        moved = params + step * direction / np.linalg.norm(direction)
        change = cpu.sequence_gradients(moved, tokens, shape)[1] - gradients
        ratios.append(np.linalg.norm(change, axis=1) / step)
    own = np.zeros(len(tokens))
    for i, gradient in enumerate(gradients):
        length = np.linalg.norm(gradient)
        if length > 0:
            moved = params + step * gradient / length
            change = cpu.sequence_gradients(moved, tokens[i : i + 1], shape)[1][0] - gradient
            own[i] = np.linalg.norm(change) / step
    return np.maximum.reduce([*ratios, own])


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
        g = point_bounds(both, data.shape, data.margins, data.rho, 0.0, tokens.shape[1]).G
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
