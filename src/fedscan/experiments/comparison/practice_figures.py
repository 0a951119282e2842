"""Figures on what theory sees in practice."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedscan.analysis.style import LOOKS, NAMES, nothing_to_show
from fedscan.experiments.comparison.quantities import WORDS
from fedscan.experiments.comparison.selection import BASELINE, CONFIGURATION

MARKERS = "osD^v<>p"
SHOWN = ("client_drift", "update_dispersion", "server_displacement")


def ordering_figure(numbers: pd.DataFrame) -> Figure:
    """Draw the mean rank correlation with the outcome per quantity.

    Args:
        numbers: rows 'practice' of table ``numbers``.

    Returns:
        Strongest on top: the mean over all configurations with its interval, betas as open marks.
    """
    rows = numbers[numbers["quantity"] == "mean_spearman"]
    overall = rows[~rows["row"].str.contains(" beta=")].iloc[::-1].reset_index(drop=True)
    if overall.empty:
        return nothing_to_show("fewer than three algorithms: there is no order to explain")
    figure = Figure(figsize=(7.2, 0.34 * len(overall) + 1.7), layout="constrained")
    axis = figure.subplots()
    places = {row: place for place, row in enumerate(overall["row"])}
    low = (overall["value"] - overall["low"]).fillna(0).to_numpy(float)
    high = (overall["high"] - overall["value"]).fillna(0).to_numpy(float)
    axis.errorbar(overall["value"], range(len(overall)), xerr=[low, high], fmt="o", color="black",
                  capsize=3, label="all configurations, 95% interval")  # fmt: skip
    colors = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7")
    betas = sorted({float(row.rpartition("beta=")[2]) for row in rows["row"] if " beta=" in row})
    for beta, color, marker in zip(betas, colors, MARKERS, strict=False):
        part = rows[rows["row"].str.endswith(f" beta={beta:g}")]
        heights = [places[row.rpartition(" beta=")[0]] for row in part["row"]]
        axis.scatter(part["value"], heights, facecolors="none", edgecolors=color, marker=marker,
                     label=f"β = {beta:g}", zorder=3)  # fmt: skip
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlim(-1.05, 1.05)
    axis.set_yticks(range(len(overall)), list(overall["row"]), fontsize=9)
    axis.set_xlabel("rank correlation with last-10 perplexity across algorithms")
    axis.grid(alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=8)  # fmt: skip
    return figure


def movement_figure(joined: pd.DataFrame) -> Figure:
    """Draw drift, dispersion and displacement relative to FedAvg against relative perplexity.

    Args:
        joined: result of ``practice.outcomes``.

    Returns:
        A panel per quantity, a point per configuration, seed and algorithm.
    """
    base = joined[joined["algorithm"] == BASELINE].drop(columns=["algorithm", "value"])
    key = [*CONFIGURATION, "seed"]
    pairs = joined[joined["algorithm"] != BASELINE].merge(base, on=key, suffixes=("", "_fedavg"))
    if pairs.empty:
        return nothing_to_show("no algorithm to compare with FedAvg")
    figure = Figure(figsize=(3.7 * len(SHOWN) + 0.6, 4.3), layout="constrained")
    axes = figure.subplots(1, len(SHOWN), sharey=True)
    outcome = pairs["val_ppl_last10"] / pairs["val_ppl_last10_fedavg"]
    names = [name for name in NAMES if (pairs["algorithm"] == name).any()]
    betas = dict(zip(sorted(pairs["beta"].unique()), MARKERS, strict=False))
    for axis, quantity in zip(axes, SHOWN, strict=True):
        ratio = pairs[quantity] / pairs[f"{quantity}_fedavg"]
        for name in names:
            for beta, marker in betas.items():
                mine = (pairs["algorithm"] == name) & (pairs["beta"] == beta)
                axis.scatter(ratio[mine], outcome[mine], s=30, alpha=0.75, marker=marker,
                             color=LOOKS[name]["color"], linewidths=0)  # fmt: skip
        axis.axhline(1, color="black", linewidth=0.7)
        axis.axvline(1, color="black", linewidth=0.7)
        axis.set_xscale("log")
        _plain_ticks(axis.xaxis, ratio)
        axis.set_xlabel(f"{WORDS[quantity]} / FedAvg's")
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    _plain_ticks(axes[0].yaxis, outcome)
    axes[0].set_ylabel("last-10 perplexity / FedAvg's")
    shown = [Line2D([], [], color=LOOKS[n]["color"], marker="o", linestyle="", label=NAMES[n])
             for n in names]  # fmt: skip
    shown += [Line2D([], [], color="#555555", marker=marker, linestyle="", label=f"β = {beta:g}")
              for beta, marker in betas.items()]  # fmt: skip
    figure.legend(handles=shown, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    return figure


def _plain_ticks(axis: Axis, values: pd.Series) -> None:
    """Label a logarithmic axis with plain numbers, as many as its decades leave room for."""
    decades = float(np.log10(values.max() / values.min()))
    if decades < 0.7:
        # Powers of ten and their multiples are too far apart to read anything off.
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    else:
        subs = (1.0, 3.0) if decades < 2 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def figures(numbers: pd.DataFrame, joined: pd.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Name both figures.

    Args:
        numbers: rows 'practice' of table ``numbers``.
        joined: result of ``practice.outcomes``.

    Returns:
        File stem -> function that draws it.
    """
    return {
        "ordering": lambda: ordering_figure(numbers),
        "movement": lambda: movement_figure(joined),
    }
