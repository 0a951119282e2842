"""Figures of merging: sweeps, tasks, and where merges lie."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedscan.experiments.merging.numbers import (
    OPERATORS,
    Merged,
    epochs,
    merged,
    select,
    specialists,
    spread,
    zero_shot,
)

NAMES = {
    "average": "weight averaging",
    "task_arithmetic": "Task Arithmetic",
    "ties": "TIES-Merging",
}
# Okabe and Ito's colours; markers repeat the distinction.
COLORS = {"average": "#000000", "task_arithmetic": "#0072B2", "ties": "#D55E00"}
MARKERS = {"average": "s", "task_arithmetic": "o", "ties": "^"}
REFERENCES = (("#999999", "zero-shot"), ("#009E73", "specialists, own task"))


def accuracy_against_scale(found: Merged) -> Figure:
    """Draw accuracy averaged over tasks against lambda, a panel per base.

    Args:
        found: collected tables.

    Returns:
        Lines after the last checkpoint epoch; TIES with one line per density; error bars are the
        deviation over seeds.
    """
    last = max(epochs(found))
    figure, axes = _panels(found, (4.6, 3.8))
    for axis, base in zip(axes, found.names, strict=True):
        _sweep(axis, found, base, "task_arithmetic", last, None)
        ties = merged(found, base, "ties", 0.0, last)
        for index, density in enumerate(sorted(ties["density"].unique())):
            _sweep(axis, found, base, "ties", last, density, ("-", "--", ":", "-.")[index % 4])
        average = spread(merged(found, base, "average", 0.0, last))[0]
        style = {"color": COLORS["average"], "linestyle": "-.", "linewidth": 1.2}
        axis.axhline(average, label=NAMES["average"], **style)
        own = specialists(found, base, 0.0, last, own=True)
        levels = (spread(zero_shot(found, base))[0], spread(own)[0])
        for (color, label), level in zip(REFERENCES, levels, strict=True):
            axis.axhline(level, color=color, linewidth=1.5, label=label)
        axis.set_xlabel("scale λ")
        axis.set_ylabel("accuracy, mean over tasks (%)")
        axis.set_title(f"{base}, {last} epochs", fontsize=10)
    _legend(figure, axes[0], columns=2)
    return figure


def accuracy_by_task(found: Merged) -> Figure:
    """Draw every model's accuracy per task after the last checkpoint epoch, a panel per base.

    Args:
        found: collected tables.

    Returns:
        Bars with the deviation over seeds; short lines mark chance.
    """
    last = max(epochs(found))
    figure, axes = _panels(found, (6.4, 3.6))
    for axis, base in zip(axes, found.names, strict=True):
        zero = zero_shot(found, base)
        tasks = list(dict.fromkeys(zero["evaluated_on"]))
        own = specialists(found, base, 0.0, last, own=True)
        bars = [
            (REFERENCES[0][1], REFERENCES[0][0], zero),
            (REFERENCES[1][1], REFERENCES[1][0], own),
        ]
        for operator in OPERATORS:
            best = select(merged(found, base, operator, 0.0, last))
            if best is not None:
                bars.append((NAMES[operator], COLORS[operator], best.rows))
        for place, (label, color, rows) in enumerate(bars):
            parts = [spread(rows[rows["evaluated_on"] == task]) for task in tasks]
            heights, spreads = zip(*parts, strict=True)
            places = np.arange(len(tasks)) + 0.16 * (place - (len(bars) - 1) / 2)
            axis.bar(
                places, heights, 0.15, yerr=_error(spreads), color=color, label=label, capsize=2
            )
        for index, task in enumerate(tasks):
            chance = zero.loc[zero["evaluated_on"] == task, "chance"].iloc[0]
            label = "chance" if index == 0 else None
            axis.hlines(chance, index - 0.45, index + 0.45, color="#CC79A7", lw=1.5, label=label)
        axis.set_xticks(range(len(tasks)), tasks, fontsize=8)
        axis.set_ylabel("accuracy (%)")
        axis.set_title(f"{base}, {last} epochs, sweeps at their best values", fontsize=10)
    _legend(figure, axes[0], columns=3)
    return figure


def displacement_of_merges(found: Merged) -> Figure:
    """Draw the held-out loss of every merge against its displacement in units of the radius.

    Args:
        found: collected tables.

    Returns:
        A point per merge; the line at 1 is the ball that holds all specialists, the horizontal
        one the base's loss.
    """
    figure, axes = _panels(found, (4.6, 3.8))
    for axis, base in zip(axes, found.names, strict=True):
        rows = found.displacements[found.displacements["base"] == base]
        rows = rows[rows["status"] == "completed"]
        for operator, label in NAMES.items():
            part = rows[rows["operator"] == operator]
            axis.scatter(part["displacement"] / part["radius"], part["loss"], s=22, alpha=0.8,
                         color=COLORS[operator], marker=MARKERS[operator], label=label)  # fmt: skip
        axis.axvline(1.0, color="black", linewidth=1, linestyle=":", label="radius R")
        if len(rows):
            axis.axhline(rows["base_loss"].iloc[0], color="#999999", linewidth=1, label="base")
        axis.set_xlabel("displacement of the merge / R")
        axis.set_ylabel("held-out loss (nats per label token)")
        axis.set_title(base, fontsize=10)
    _legend(figure, axes[0], columns=3)
    return figure


def figures(found: Merged) -> dict[str, Callable[[], Figure]]:
    """Name every figure on merging.

    Args:
        found: collected tables.

    Returns:
        File stem -> function that draws it.
    """
    return {
        "scales": lambda: accuracy_against_scale(found),
        "tasks": lambda: accuracy_by_task(found),
        "displacements": lambda: displacement_of_merges(found),
    }


def _sweep(
    axis: Axes,
    found: Merged,
    base: str,
    operator: str,
    epoch: int,
    density: float | None,
    line: str = "-",
) -> None:
    rows = merged(found, base, operator, 0.0, epoch)
    label = NAMES[operator]
    if density is not None:
        rows, label = rows[rows["density"] == density], f"{label}, d = {density:g}"
    points = [(scale, *spread(part)) for scale, part in rows.groupby("scale")]
    if not points:
        return
    places, means, deviations = zip(*points, strict=True)
    look = {"color": COLORS[operator], "marker": MARKERS[operator], "linestyle": line}
    axis.errorbar(
        places, means, yerr=_error(deviations), label=label, markersize=4, capsize=2, **look
    )


def _error(deviations: Sequence[float]) -> np.ndarray | None:
    """Return error bars; a single seed has none."""
    return None if np.isnan(deviations).all() else np.nan_to_num(deviations)


def _panels(found: Merged, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    count = len(found.names)
    figure = Figure(figsize=(size[0] * count + 0.4, size[1] + 0.8), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    return figure, axes


def _legend(figure: Figure, axis: Axes, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
