"""Figures 6(a-c), 7 and 8(a-b): federated learners on the teachers' datasets."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fedscan.analysis.intervals import median
from fedscan.analysis.style import LOOKS, NAMES, panel
from fedscan.experiments.students.numbers import Students, core, is_base

SCALES = {"sequence": "#0072B2", "bigram": "#E69F00", "unigram": "#009E73"}


def drift_against_local_steps(tail: pd.DataFrame) -> Figure:
    """Draw Figure 6(a): client drift against E, with the reference radius.

    Args:
        tail: runs with drift and radius.

    Returns:
        Medians over core cells with bootstrap intervals.
    """
    rows = core(tail[is_base(tail, "local_steps")], "local_steps")
    figure, axis = panel()
    for algorithm, part in rows.groupby("algorithm"):
        name = str(algorithm)
        _medians(axis, part, "local_steps", "drift", LOOKS[name]["color"], NAMES[name])
    _medians(axis, rows, "local_steps", "radius", "#999999", "reference radius R")
    return _log(figure, axis, "local steps E", "end-of-round client drift", rows["local_steps"])


def disagreement_against_clients(tail: pd.DataFrame) -> Figure:
    """Draw Figure 6(b): client disagreement against K.

    Args:
        tail: runs with disagreement.

    Returns:
        Medians over core cells with bootstrap intervals.
    """
    rows = core(tail[is_base(tail, "clients")], "clients")
    figure, axis = panel()
    for algorithm, part in rows.groupby("algorithm"):
        name = str(algorithm)
        _medians(axis, part, "clients", "disagreement", LOOKS[name]["color"], NAMES[name])
    return _log(figure, axis, "clients K", "client disagreement", rows["clients"])


def base_against_memory(tail: pd.DataFrame) -> Figure:
    """Draw Figure 6(c): disagreement, drift and squared gradient against 1 - rho.

    Args:
        tail: runs with all three.

    Returns:
        Medians over all cells at the base setting.
    """
    rows = tail[is_base(tail)].assign(memory=lambda frame: 1 - frame["rho"])
    figure, axis = panel()
    for column, color, name in (
        ("disagreement", "#D55E00", "client disagreement"),
        ("drift", "#0072B2", "client drift"),
        ("gradient_squared", "#009E73", "squared gradient of f"),
    ):
        _medians(axis, rows, "memory", column, color, name)
    axis.invert_xaxis()
    return _log(figure, axis, "1 − ρ (memory grows to the right)", "tail mean")


def rounds_by_local_steps(found: Students) -> Figure:
    """Draw Figure 7: squared gradient and drift per round, a column per E.

    Args:
        found: collected tables.

    Returns:
        Medians over core cells and seeds, middle half shaded.
    """
    rows = core(found.rounds[is_base(found.rounds, "local_steps")], "local_steps")
    values = sorted(rows["local_steps"].unique())
    if not values:
        return _log(*panel(), "round", "squared gradient of f")
    figure = Figure(figsize=(2.9 * len(values) + 0.8, 5.2), layout="constrained")
    axes = figure.subplots(2, len(values), squeeze=False, sharex=True, sharey="row")
    for column, steps in enumerate(values):
        part = rows[rows["local_steps"] == steps]
        for line, quantity in enumerate(("gradient_squared", "client_drift_mean")):
            axis = axes[line][column]
            for algorithm, mine in part.groupby("algorithm"):
                _band(axis, mine, quantity, str(algorithm))
            axis.set_yscale("log")
            axis.grid(alpha=0.3)
        axes[0][column].set_title(f"E = {steps}", fontsize=10)
        axes[1][column].set_xlabel("round")
    axes[0][0].set_ylabel("squared gradient of f")
    axes[1][0].set_ylabel("client drift")
    # A panel may lack an algorithm: studies choose theirs.
    shown = {label: handle for axis in axes.flat
             for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}  # fmt: skip
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=2, frameon=False)
    return figure


def disagreement_against_bound(found: Students) -> Figure:
    """Draw Figure 8(a): measured disagreement against bounds, iid and dominant partitions.

    Args:
        found: collected tables.

    Returns:
        Circles: the certified bound; crosses: the token-level term, ours and uncertified.
    """
    rows = found.rounds.dropna(subset=["disagreement"])
    figure, axis = panel()
    colors = (("iid", "#0072B2", "#56B4E9"), ("dominant", "#D55E00", "#E69F00"))
    for partition, color, light in colors:
        part = rows[rows["partition"] == partition]
        if part.empty:
            continue
        certified, token = part["disagreement_bound_tight"], part["token_level"]
        axis.scatter(certified, part["disagreement"], s=6, color=color, alpha=0.4, linewidths=0,
                     label=f"{partition}: certified")  # fmt: skip
        axis.scatter(token, part["disagreement"], s=8, color=light, alpha=0.5, marker="x",
                     linewidths=0.6, label=f"{partition}: token level (ours)")  # fmt: skip
    if rows.empty:
        return _log(figure, axis, "bound on disagreement", "measured disagreement")
    ends = [rows["disagreement"].min(), rows["disagreement_bound_tight"].max()]
    axis.plot(ends, ends, color="black", linewidth=1.2)
    axis.legend(fontsize=8)
    return _log(figure, axis, "bound on disagreement (line: equality)", "measured disagreement")


def variation_by_scale(found: Students) -> Figure:
    """Draw Figure 8(b): squared total variation per client count, partition and scale.

    Args:
        found: collected tables.

    Returns:
        Medians over runs.
    """
    groups = list(found.runs.groupby(["partition", "clients"]))
    figure, axis = panel()
    if not groups:
        return _log(figure, axis, "clients K", "weighted squared total variation")
    for shift, (scale, color) in enumerate(SCALES.items()):
        heights = [float(part[f"tv_{scale}"].median()) for _, part in groups]
        axis.bar(
            np.arange(len(groups)) + 0.27 * (shift - 1), heights, 0.25, color=color, label=scale
        )
    names = [f"{partition}\nK={clients}" for (partition, clients), _ in groups]
    axis.set_xticks(range(len(groups)), names, fontsize=8)
    axis.set_yscale("log")
    axis.set_ylabel("weighted squared total variation")
    figure.legend(*axis.get_legend_handles_labels(), title="only 'sequence' is certified",
                  loc="outside lower center", ncols=3, fontsize=8, frameon=False)  # fmt: skip
    return figure


def figures(found: Students, tail: pd.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Name every figure on federated learners.

    Args:
        found: collected tables.
        tail: result of ``student_numbers.tails``.

    Returns:
        File stem -> function that draws it.
    """
    return {
        "figure6a": lambda: drift_against_local_steps(tail),
        "figure6b": lambda: disagreement_against_clients(tail),
        "figure6c": lambda: base_against_memory(tail),
        "figure7": lambda: rounds_by_local_steps(found),
        "figure8a": lambda: disagreement_against_bound(found),
        "figure8b": lambda: variation_by_scale(found),
    }


def _medians(axis: Axes, rows: pd.DataFrame, x: str, y: str, color: str, label: str) -> None:
    places: Sequence[float] = sorted(rows[x].unique())
    if not places:
        return
    found = [median(rows.loc[rows[x] == place, y].to_numpy(float)) for place in places]
    centre = np.array([estimate.value for estimate in found])
    spread = np.nan_to_num([[e.value - e.low for e in found], [e.high - e.value for e in found]])
    axis.errorbar(places, centre, yerr=spread, color=color, marker="o", capsize=2, label=label)


def _band(axis: Axes, rows: pd.DataFrame, quantity: str, algorithm: str) -> None:
    by_round = rows.dropna(subset=[quantity]).groupby("round")[quantity]
    low, centre, high = (by_round.quantile(share) for share in (0.25, 0.5, 0.75))
    look = LOOKS[algorithm]
    axis.plot(centre.index, centre, label=NAMES[algorithm], **look)
    axis.fill_between(centre.index, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _log(figure: Figure, axis: Axes, x: str, y: str, places: pd.Series | None = None) -> Figure:
    if not axis.has_data():
        axis.set_title("this configuration has no such runs", fontsize=9)
        return figure
    axis.set_xscale("log")
    axis.set_yscale("log")
    if places is not None:
        values = sorted(places.unique())
        axis.set_xticks(values, [str(value) for value in values])
        axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if axis.get_legend_handles_labels()[0] and axis.get_legend() is None:
        axis.legend(fontsize=8)
    return figure
