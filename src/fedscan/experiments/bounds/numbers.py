"""Tables 1, 17, 18, 19 and 21: validity, tightness, anatomy of the gradient, training.

Rows are long: one per number, so that ours and the paper's stand side by side.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedscan.analysis.intervals import Estimate, median
from fedscan.analysis.numbers import Number
from fedscan.experiments.bounds.comparisons import COMPARISONS, Comparison, bounds_of_points
from fedscan.experiments.teachers.tables import CELL
from fedscan.models.selective_ssm.layout import BLOCKS

CHECKPOINTS = ("initialization", "intermediate", "final", "frozen_teacher")
# What names a point in the collected tables.
POINT = [*CELL, "seed", "checkpoint", "update"]


class Evaluated(NamedTuple):
    """Collected tables of stage ``evaluation``, with columns d_input and d_state."""

    points: pd.DataFrame
    gradients: pd.DataFrame  # with the bounds, utilization and utilization_tight
    curvature: pd.DataFrame  # with the bounds
    trajectories: pd.DataFrame


def with_bounds(points: pd.DataFrame, rows: pd.DataFrame, every: bool) -> pd.DataFrame:
    """Join sequences with the bounds of their point.

    Args:
        points: table ``points``.
        rows: table ``gradients`` or ``curvature``.
        every: whether of all test sequences, as ``gradients``, see ``comparisons``.

    Returns:
        ``rows`` with a column per bound.
    """
    names = [column.name for column in bounds_of_points(every)]
    return rows.merge(points[[*POINT, *names]], on=POINT, how="left", validate="m:1")


def with_utilization(gradients: pd.DataFrame) -> pd.DataFrame:
    """Divide every sequence's gradient by its bounds.

    Args:
        gradients: table ``gradients`` with the bounds.

    Returns:
        The same with columns utilization and utilization_tight, measured / bound.
    """
    return gradients.assign(
        utilization=gradients["gradient_norm"] / gradients["G"],
        utilization_tight=gradients["gradient_norm"] / gradients["G_tight"],
    )


def table1(found: Evaluated) -> Iterator[Number]:
    """Yield evaluations, violations and largest utilization of every check.

    Args:
        found: collected tables.

    Yields:
        Numbers; rows that the paper does not have are marked as ours.
    """
    points, pairs = found.points, found.trajectories
    for comparison in COMPARISONS:
        if not comparison.ours:
            yield from _of_comparison(comparison, found)
    for check, measured, bound, violation in (
        ("trajectory_gradient_lipschitz<=L_SSM_R", "gradient_ratio", "L_distance", "gradient"),
        ("bound_variation<=L_G_R", "bound_ratio", "L_G_distance", "bound"),
    ):
        violations = int(pairs[f"violation_{violation}"].sum())
        yield from _check(check, len(pairs), violations, pairs[measured] / pairs[bound])
    for comparison in COMPARISONS:
        if comparison.ours:
            yield from _of_comparison(comparison, found)
    ratio = points["batch_gradient"] / points["gradient_mean"]
    broken = int(points["batch_violations"].sum())
    note = "ours; the largest ratio is to the mean norm"
    yield from _check("ours: batch_gradient<=mean norm and G", 3 * len(points), broken, ratio, note)
    for comparison in COMPARISONS:
        if comparison.condition is not None:
            outside = int((~found.curvature[comparison.condition.column.name]).sum())
            text = comparison.condition.outside
            yield Number("table1", comparison.row, "not_applicable", outside, note=text)


def _of_comparison(comparison: Comparison, found: Evaluated) -> Iterator[Number]:
    every, condition = comparison.measured.every, comparison.condition
    rows = found.gradients if every else found.curvature
    if condition is not None:
        rows = rows[rows[condition.column.name]]
    counted = found.points if every else rows
    violations = int(counted[comparison.flag.name].sum())
    ratio = rows[comparison.measured.name] / rows[comparison.bound.name]
    yield from _check(comparison.row, len(rows), violations, ratio, comparison.note)


def _check(
    check: str, evaluations: int, violations: int, utilization: pd.Series, note: str = ""
) -> Iterator[Number]:
    yield Number("table1", check, "evaluations", evaluations, note=note)
    yield Number("table1", check, "violations", violations, note=note)
    yield Number("table1", check, "max_utilization", float(utilization.max()), note=note)


def table17(found: Evaluated) -> Iterator[Number]:
    """Yield validity and tightness by stability limit.

    Args:
        found: collected tables.

    Yields:
        Numbers per rho and for all; intervals resample points.
    """
    groups: list[tuple[str, pd.DataFrame, pd.DataFrame]] = [
        (f"{rho:g}", points, found.gradients[found.gradients["rho"] == rho])
        for rho, points in found.points.groupby("rho")
    ]
    for row, points, sequences in [*groups, ("all", found.points, found.gradients)]:
        yield Number("table17", row, "cells", len(points[CELL].drop_duplicates()))
        yield Number("table17", row, "points", len(points))
        yield Number("table17", row, "sequences", int(points["sequences"].sum()))
        yield Number("table17", row, "violations", int(points["violations"].sum()))
        yield Number("table17", row, "violations_tight", int(points["violations_tight"].sum()))
        for name, column, bound in (
            ("configured", "utilization", "G"),
            ("tight", "utilization_tight", "G_tight"),
        ):
            interval = median((points["gradient_median"] / points[bound]).to_numpy())
            centre = float(sequences[column].median())
            yield Number("table17", row, f"median_util_{name}", centre, interval.low, interval.high)
        yield Number("table17", row, "max_util_tight", float(sequences["utilization_tight"].max()))
        yield Number("table17", row, "median_realised_rho", float(points["rho_hat"].median()))


def table18(found: Evaluated) -> Iterator[Number]:
    """Yield utilization along training.

    Args:
        found: collected tables.

    Yields:
        Numbers per checkpoint.
    """
    for checkpoint in CHECKPOINTS:
        points = found.points[found.points["checkpoint"] == checkpoint]
        sequences = found.gradients[found.gradients["checkpoint"] == checkpoint]
        if points.empty:
            continue
        row = checkpoint if checkpoint == "frozen_teacher" else f"learner_{checkpoint}"
        yield Number("table18", row, "points", len(points))
        for quantity, value in (
            ("median_util_configured", sequences["utilization"].median()),
            ("median_util_tight", sequences["utilization_tight"].median()),
            ("max_util_tight", sequences["utilization_tight"].max()),
            ("median_G_SSM", points["G"].median()),
            ("median_gradient_norm", sequences["gradient_norm"].median()),
        ):
            yield Number("table18", row, quantity, float(value))


def table19(found: Evaluated) -> Iterator[Number]:
    """Yield where the gradient's energy lies, and the recurrent share of the bound.

    Args:
        found: collected tables.

    Yields:
        Numbers per checkpoint (final, teacher) and rho: medians over sequences.
    """
    for checkpoint in ("final", "frozen_teacher"):
        points = found.points[found.points["checkpoint"] == checkpoint]
        sequences = found.gradients[found.gradients["checkpoint"] == checkpoint]
        name = checkpoint if checkpoint == "frozen_teacher" else f"learner_{checkpoint}"
        for rho, part in sequences.groupby("rho"):
            row = f"{name} {rho:g}"
            energy = part["gradient_norm"] ** 2
            for block in BLOCKS:
                share = float((part[f"gradient_{block}"] ** 2 / energy).median())
                yield Number("table19", row, f"share_{block}", share)
            recurrent = points.loc[points["rho"] == rho, "recurrent_share"]
            yield Number("table19", row, "recurrent_share_of_G", float(recurrent.median()))


def table21(learners: pd.DataFrame) -> Iterator[Number]:
    """Yield how well centralised learners do.

    Args:
        learners: table ``learners`` with columns d_input and d_state.

    Yields:
        Numbers per rho; failed learners are counted and left out of medians.
    """
    for rho, part in learners.groupby("rho"):
        row = f"{rho:g}"
        done = part[part["status"] == "completed"]
        below = done["test_nll"] < np.log(done["d_input"])
        gap: Estimate = median(done["gap_recovered"].to_numpy())
        yield Number("table21", row, "runs", len(part))
        yield Number("table21", row, "failed_runs", len(part) - len(done))
        yield Number("table21", row, "fraction_below_uniform", float(below.mean()))
        yield Number("table21", row, "median_excess_nll", float(done["excess_nll"].median()))
        yield Number("table21", row, "median_gap_recovered", *gap)
        yield Number("table21", row, "median_final_realised_rho", float(done["rho_hat"].median()))


def bank(teachers: pd.DataFrame) -> Iterator[Number]:
    """Count the accepted teachers by how they were found.

    Args:
        teachers: table ``teachers`` with columns d_input and d_state.

    Yields:
        Counts.
    """
    yield Number("bank", "accepted", "teachers", len(teachers))
    yield Number("bank", "first attempt", "teachers", int((teachers["candidates"] == 1).sum()))
    yield Number("bank", "longest search", "candidates", int(teachers["candidates"].max()))
    for column, name in (
        ("teacher_seed", "seed"),
        ("gain", "gain"),
        ("temperature", "temperature"),
    ):
        for key, count in teachers[column].value_counts().sort_index().items():
            yield Number("bank", f"{name} {key:g}", "teachers", int(count))
    spread = teachers["rho"] - teachers["rho_hat"]
    yield Number("bank", "largest rho - rho_hat", "-", float(spread.max()))


def stack_numbers(stacks: pd.DataFrame) -> Iterator[Number]:
    """Yield validity and tightness of the multi-layer bounds; ours, the paper stops at one layer.

    Args:
        stacks: table ``stacks``.

    Yields:
        Numbers per depth and origin.
    """
    for (depth, origin), part in stacks.groupby(["depth", "origin"]):
        row = f"Q={depth} {origin}"
        note = "ours: the paper states these bounds and does not evaluate them"
        yield Number("stacks", row, "points", len(part), note=note)
        yield Number("stacks", row, "checks", int(part["checks"].sum()), note=note)
        yield Number("stacks", row, "violations", int(part["violations"].sum()), note=note)
        vacuous = float(np.isinf(part["L"]).mean())
        yield Number("stacks", row, "share_infinite", vacuous, note=note)
        for measured, bound in (("gradient_max", "G"), ("hessian_max", "L")):
            for suffix in ("", "_realised"):
                ratio = (part[measured] / part[f"{bound}{suffix}"]).max()
                yield Number("stacks", row, f"max_util_{bound}{suffix}", float(ratio), note=note)
