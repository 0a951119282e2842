"""Figures 2(a-d), 3, 4, 5 and 9: bounds against measurements."""

from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedscan.analysis.style import panel
from fedscan.experiments.bounds.learner_figure import learners_and_teachers
from fedscan.experiments.bounds.numbers import Evaluated
from fedscan.models.selective_ssm.layout import BLOCKS

BLOCK_COLORS = dict(zip(BLOCKS, ("#0072B2", "#E69F00", "#56B4E9", "#D55E00"), strict=True))
BLOCK_WORDS = {"W_delta": r"$W_\Delta$", "W_B": "$W_B$", "W_C": "$W_C$", "A": "$A$"}
ONE_IN = 8


def rho_colors(rhos: Sequence[float]) -> dict[float, tuple[float, ...]]:
    """Return a colour per stability limit, dark for short memory; readable with any colour vision.

    Args:
        rhos: values, any order.

    Returns:
        rho -> RGBA.
    """
    ordered = sorted(rhos)
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(ordered)))
    return {rho: tuple(shade) for rho, shade in zip(ordered, shades, strict=True)}


def gradient_against_bound(points: pd.DataFrame, bound: str, label: str) -> Figure:
    """Draw Figure 2(a) or 4(a): every point's largest gradient norm against its bound.

    Args:
        points: table ``points``.
        bound: column of the bound.
        label: name of the bound on the axis.

    Returns:
        The figure; points above the line would be violations.
    """
    figure, axis = panel()
    for rho, color in rho_colors(points["rho"].unique()).items():
        part = points[points["rho"] == rho]
        teacher = part["checkpoint"] == "frozen_teacher"
        for mask, marker in ((~teacher, "o"), (teacher, "^")):
            axis.scatter(
                part.loc[mask, bound],
                part.loc[mask, "gradient_max"],
                s=14,
                color=color,
                marker=marker,
                linewidths=0,
                alpha=0.8,
                label=f"{rho:g}" if marker == "o" else None,
            )
    low, high = points[bound].min() / 2, points[bound].max() * 2
    line = np.array([low, high])
    for power in range(0, 12, 2):
        style = {"linewidth": 1.6} if not power else {"linewidth": 0.5}
        axis.plot(line, line * 10.0**-power, color="black", zorder=0, **style)
    axis.set_xlim(low, high)
    axis.set_ylim(points["gradient_max"].min() / 3, points[bound].max() * 2)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(label)
    axis.set_ylabel("largest measured gradient norm")
    axis.set_title("thick line: the bound; thin lines: 1e-2, 1e-4, ... of it", fontsize=9)
    axis.legend(title="ρ (triangles: teachers)", fontsize=8, ncols=2, loc="upper left")
    return figure


def growth_with_memory(points: pd.DataFrame) -> Figure:
    """Draw Figure 2(b): medians at the end of training against 1 - rho.

    Args:
        points: joined points with hessian_median.

    Returns:
        The figure; slopes in the legend are fits over all points.
    """
    final = points[points["checkpoint"] == "final"]
    figure, axis = panel()
    looks = (
        ("G", "G bound", "#0072B2", "o"),
        ("L", "L bound", "#D55E00", "s"),
        ("gradient_median", "measured gradient", "#56B4E9", "o"),
        ("hessian_median", "measured Hessian", "#E69F00", "s"),
    )
    x = np.log10(1 - final["rho"].to_numpy(float))
    for column, name, color, marker in looks:
        medians = final.groupby("rho")[column].median()
        y = np.log10(final[column].to_numpy(float))
        exponent = np.polyfit(x, y, 1)[0] if len(np.unique(x)) > 1 else np.nan
        label = f"{name}, slope {exponent:.2f}"
        axis.plot(1 - medians.index, medians, color=color, marker=marker, label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.invert_xaxis()
    axis.set_xlabel("1 − ρ (memory grows to the right)")
    axis.set_ylabel("median over points")
    axis.legend(fontsize=8)
    return figure


def energy_by_block(sequences: pd.DataFrame) -> Figure:
    """Draw Figure 2(c): the blocks' shares of the squared gradient norm at the end of training.

    Args:
        sequences: table ``gradients``.

    Returns:
        The figure; medians over sequences need not sum to one.
    """
    final = sequences[sequences["checkpoint"] == "final"]
    figure, axis = panel()
    energy = final["gradient_norm"] ** 2
    for block in BLOCKS:
        share = (final[f"gradient_{block}"] ** 2 / energy).groupby(final["rho"]).median()
        places = np.arange(len(share))
        axis.plot(places, share, marker="o", color=BLOCK_COLORS[block], label=BLOCK_WORDS[block])
        axis.set_xticks(places, [f"{rho:g}" for rho in share.index])
    axis.set_xlabel("ρ")
    axis.set_ylabel("median share of squared gradient norm")
    axis.set_ylim(0, 1)
    axis.legend(ncols=4, loc="upper center", fontsize=9)
    return figure


def dimension_exponents(numbers: pd.DataFrame) -> Figure:
    """Draw Figure 2(d): exponents of bound and gradient in D and N.

    Args:
        numbers: table ``numbers``.

    Returns:
        The figure; bars are 95% intervals.
    """
    rows = numbers[(numbers["table"] == "table20") & numbers["value"].notna()]
    figure, axis = panel()
    if rows.empty:
        axis.set_title("needs two values of d_input or d_state", fontsize=9)
        return figure
    parts = rows["row"].str.split(" ", expand=True)
    rhos = sorted(parts[0].unique(), key=float)
    for shift, (letter, color) in enumerate((("D", "#0072B2"), ("N", "#E69F00"))):
        for offset, (name, filled) in enumerate((("G", True), ("gradient", False))):
            mine = rows[(parts[2] == letter) & (parts[1] == name)]
            if mine.empty:
                continue
            x = np.array([rhos.index(row.split(" ")[0]) for row in mine["row"]])
            place = x + 0.18 * (shift + 2 * offset - 1.5)
            spread = np.abs(mine[["low", "high"]].T.to_numpy(float) - mine["value"].to_numpy(float))
            axis.errorbar(
                place,
                mine["value"],
                yerr=np.nan_to_num(spread),
                fmt="o",
                color=color,
                markerfacecolor=color if filled else "white",
                label=f"{'bound' if filled else 'gradient'} in {letter}",
            )
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(rhos)), rhos)
    axis.set_xlabel("ρ")
    axis.set_ylabel("exponent")
    axis.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure


def utilization_along_training(points: pd.DataFrame) -> Figure:
    """Draw Figure 3: median utilization at checkpoints, one curve per rho.

    Args:
        points: table ``points``.

    Returns:
        Two panels, configured and tightened constants.
    """
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    stages = points.assign(
        place=points["update"].astype("Float64").fillna(points["update"].max() * 1.15)
    )
    for axis, bound, title in zip(
        figure.subplots(1, 2),
        ("G", "G_tight"),
        ("configured constants", "tightened constants"),
        strict=True,
    ):
        for rho, color in rho_colors(points["rho"].unique()).items():
            part = stages[stages["rho"] == rho]
            ratio = (part["gradient_median"] / part[bound]).groupby(part["place"]).median()
            axis.plot(ratio.index.astype(float), ratio, color=color, marker="o", label=f"{rho:g}")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("updates (last position: frozen teacher)")
        axis.set_ylabel("median utilization")
        axis.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="ρ", loc="outside right center", fontsize=8)
    return figure


def utilization_distribution(sequences: pd.DataFrame) -> Figure:
    """Draw Figure 4(b): distribution of the tightened utilization over sequences.

    Args:
        sequences: gradients with utilization_tight.

    Returns:
        The figure; one in eight sequences is drawn, the vertical line is the bound.
    """
    figure, axis = panel()
    for rho, color in rho_colors(sequences["rho"].unique()).items():
        values = sequences.loc[sequences["rho"] == rho, "utilization_tight"].to_numpy(float)
        shown = np.sort(values[::ONE_IN])
        axis.plot(shown, np.arange(1, len(shown) + 1) / len(shown), color=color, label=f"{rho:g}")
    axis.axvline(1.0, color="black", linewidth=1.6)
    axis.set_xscale("log")
    axis.set_xlabel("gradient norm / tightened bound")
    axis.set_ylabel("share of sequences below")
    axis.legend(title="ρ", fontsize=8)
    return figure


def attribution_bars(numbers: pd.DataFrame) -> Figure:
    """Draw Figure 9: what drives the bound and its utilization.

    Args:
        numbers: table ``numbers``.

    Returns:
        Two panels; bars of a panel sum to 100%.
    """
    rows = numbers[numbers["table"] == "table22"]
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    titles = ("log10 G", "log10 utilization")
    for axis, name in zip(figure.subplots(1, 2, sharey=True), titles, strict=True):
        quantity = f"share_{name.replace(' ', '_')}_percent"
        shares = rows[rows["quantity"] == quantity].set_index("row")
        order = list(dict.fromkeys(rows["row"]))[::-1]
        shares = shares.reindex(order)
        axis.barh(order, shares["value"].fillna(0), color="#0072B2", label="this run")
        axis.plot(shares["paper"], order, "D", color="#D55E00", label="paper", markersize=5)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_title(f"share of the variance of {name}", fontsize=10)
        axis.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        axis.margins(x=0.1)  # else a label under the panel's last tick is cut off
    figure.axes[0].legend(fontsize=8, loc="lower right")
    return figure


def figures(
    found: Evaluated, learners: pd.DataFrame, teachers: pd.DataFrame, numbers: pd.DataFrame
) -> dict[str, Callable[[], Figure]]:
    """Name every figure on the bounds.

    Args:
        found: collected tables; points with hessian_median.
        learners: table ``learners`` with d_input and d_state.
        teachers: table ``teachers`` with the same.
        numbers: table ``numbers``.

    Returns:
        File stem -> function that draws it.
    """
    points = found.points
    tight = r"$G^{tight}_{SSM}$"
    return {
        "figure2a": lambda: gradient_against_bound(points, "G", r"$G_{SSM}$"),
        "figure2b": lambda: growth_with_memory(points),
        "figure2c": lambda: energy_by_block(found.gradients),
        "figure2d": lambda: dimension_exponents(numbers),
        "figure3": lambda: utilization_along_training(points),
        "figure4a": lambda: gradient_against_bound(points, "G_tight", tight),
        "figure4b": lambda: utilization_distribution(found.gradients),
        "figure5": lambda: learners_and_teachers(learners, teachers),
        "figure9": lambda: attribution_bars(numbers),
    }
