"""Figures on what theory sees in practice."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedscan.analysis.practice import QUANTITIES
from fedscan.analysis.selection import BASELINE, CONFIGURATION
from fedscan.analysis.style import LOOKS, NAMES, nothing_to_show

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
    """Draw drift, dispersion and displacement relative to FedAvg against the perplexity change.

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
    change = 100 * (pairs["val_ppl_last10"] / pairs["val_ppl_last10_fedavg"] - 1)
    betas = sorted(pairs["beta"].unique())
    for axis, name in zip(axes, SHOWN, strict=True):
        ratio = pairs[name] / pairs[f"{name}_fedavg"]
        for algorithm in [n for n in NAMES if (pairs["algorithm"] == n).any()]:
            for beta, marker in zip(betas, MARKERS, strict=False):
                mine = (pairs["algorithm"] == algorithm) & (pairs["beta"] == beta)
                axis.scatter(ratio[mine], change[mine], s=26, alpha=0.75, marker=marker,
                             color=LOOKS[algorithm]["color"], linewidths=0,
                             label=f"{NAMES[algorithm]}, β = {beta:g}")  # fmt: skip
        axis.axhline(0, color="black", linewidth=0.7)
        axis.axvline(1, color="black", linewidth=0.7)
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_xlabel(f"{QUANTITIES[name]} / FedAvg's")
        axis.grid(alpha=0.3)
    axes[0].set_yscale("symlog", linthresh=max(2.0, float(np.nanmedian(np.abs(change)))))
    axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}"))
    axes[0].set_ylabel("change of last-10 perplexity, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


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
