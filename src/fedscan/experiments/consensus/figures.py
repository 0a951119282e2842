"""Figures 1-6 of the paper for each model, and what it does not show."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedscan.analysis.style import nothing_to_show
from fedscan.experiments.consensus.drawing import (
    COLORS,
    PAPER,
    STYLES,
    labels,
    legend,
    look,
    rows_of_panels,
)
from fedscan.experiments.consensus.numbers import Found, Model, ends
from fedscan.experiments.consensus.paper import CURVES, Published, variants_of
from fedscan.experiments.consensus.study_figures import (
    against_perplexity,
    of_merges,
    over_rounds,
)
from fedscan.experiments.consensus.theory_figures import figure7, kernels

MEASURES = {
    "lambda1": r"$\bar\lambda_1$ (1: one direction)",
    "participation": "participation $r$ (1: one direction)",
}


def figures(found: Found, published: Sequence[Published]) -> dict[str, Callable[[], Figure]]:
    """Name every figure.

    Args:
        found: what was measured; with random instances.
        published: the paper's numbers, drawn as levels beside models that ask for it.

    Returns:
        File stem -> function that draws it.
    """
    instances = found.instances
    return {
        **model_figures(found, published),
        "figure7": lambda: figure7(instances),
        "kernels": lambda: kernels(instances),
        "rounds": lambda: over_rounds(found),
        "outcomes": lambda: against_perplexity(found),
        "merges": lambda: of_merges(found),
    }


def model_figures(found: Found, published: Sequence[Published]) -> dict[str, Callable[[], Figure]]:
    """Name the figures of models alone.

    Args:
        found: what was measured.
        published: the paper's numbers.

    Returns:
        File stem -> function that draws it.
    """
    return {
        "figure1": lambda: curves(found, "figure1", published),
        "figure2": lambda: repeated(found, published),
        "figure3": lambda: curves(found, "figure3", published),
        "figure4": lambda: interaction(found, "figure4", published),
        "figure5": lambda: interaction(found, "figure5", published),
        "figure6": lambda: windows(found, published),
        "gate": lambda: gate_strength(found),
        "layers": lambda: where_in_depth(found),
        "tokens": lambda: by_position(found),
    }


def curves(found: Found, figure: str, published: Sequence[Published]) -> Figure:
    """Draw both measures against depth, for the variants a published figure is of.

    Args:
        found: what was measured.
        figure: 'figure1' or 'figure3'.
        published: the paper's numbers.

    Returns:
        A row of panels per model: mean over draws, and the band that holds all draws.
    """
    names = _variants(found, figure)
    made, axes = rows_of_panels(len(found.models), len(MEASURES))
    for row, (name, model) in zip(axes, found.models.items(), strict=True):
        for axis, (measure, label) in zip(row, MEASURES.items(), strict=True):
            for index, variant in enumerate(names):
                _band(axis, _rows_of(model, variant), measure, index, variant)
            _levels(axis, model, figure, f"{measure}_end", published)
            labels(axis, name, "depth (layers applied)", label)
    legend(made, axes, columns=3)
    return made


def repeated(found: Found, published: Sequence[Published]) -> Figure:
    """Draw both measures against depth for every repeated layer.

    Args:
        found: what was measured.
        published: the paper's numbers.

    Returns:
        A thin line per layer, mean over draws, and their median.
    """
    names = _variants(found, "figure2")
    if not names:
        return nothing_to_show("no variant of this run repeats a layer without gate")
    made, axes = rows_of_panels(len(found.models), len(MEASURES))
    for row, (name, model) in zip(axes, found.models.items(), strict=True):
        for axis, (measure, label) in zip(row, MEASURES.items(), strict=True):
            for index, variant in enumerate(names):
                rows = _rows_of(model, variant)
                lines = rows.groupby(["layer", "depth"])[measure].mean().unstack("layer")
                color = COLORS[index % len(COLORS)]
                axis.plot(lines.index, lines, color=color, linewidth=0.6, alpha=0.5)
                word = f"{variant}: median of {lines.shape[1]} layers"
                axis.plot(lines.index, lines.median(axis=1), color=color, linewidth=2, label=word)
            _levels(axis, model, "figure2", f"{measure}_end", published)
            labels(axis, name, "depth (layers applied)", label)
    legend(made, axes, columns=2)
    return made


def interaction(found: Found, figure: str, published: Sequence[Published]) -> Figure:
    """Draw sign, window means and window minima of the first token's interaction in draw 0.

    Args:
        found: what was measured.
        figure: 'figure4' or 'figure5'.
        published: the paper's numbers.

    Returns:
        Three panels per model and variant; T* is marked.
    """
    names = _variants(found, figure)
    pairs = [(m, v) for m in found.models for v in names]
    if not pairs:
        return nothing_to_show("no variant of this run is of that kind")
    made = Figure(figsize=(12, 2.6 * len(pairs) + 0.5), layout="constrained")
    axes = made.subplots(len(pairs), 3, squeeze=False)
    for row, (name, variant) in zip(axes, pairs, strict=True):
        _interaction_row(row, found.models[name], name, variant, figure, published)
    return made


def _interaction_row(
    row: Sequence[Axes],
    model: Model,
    name: str,
    variant: str,
    figure: str,
    published: Sequence[Published],
) -> None:
    rows = _rows_of(model, variant)
    rows = rows[(rows["draw"] == 0) & (rows["layer"] == rows["layer"].min()) & (rows["depth"] > 0)]
    q = rows.sort_values("depth")["q_token_first"].to_numpy(float)
    depths = np.arange(1, len(q) + 1)
    if not len(q):
        for axis in row:
            axis.set_axis_off()
        row[0].text(0.5, 0.5, f"{name}, {variant}: draw 0 failed", ha="center")
        return
    row[0].vlines(depths, 0, np.sign(q), color=np.where(q > 0, COLORS[0], COLORS[1]), linewidth=1)
    row[0].axhline(0, color="black", linewidth=0.6)
    labels(row[0], f"{name}, {variant}", "depth", "sign of q, first token")
    (minima,) = _minima(model, variant, "first_token").tolist()[:1]
    lowest = np.array(minima)
    shortest = int((lowest > 0).argmax()) + 1 if (lowest > 0).any() else None
    length = shortest or min(len(q), 8)
    means = np.convolve(q, np.ones(length) / length, mode="valid")
    row[1].plot(np.arange(1, len(means) + 1), means, color=COLORS[0], linewidth=1.2)
    row[1].axhline(0, color="black", linewidth=0.6)
    word = "T*" if shortest else "no T*; shown"
    labels(row[1], f"{word} = {length}", "first depth of the window", f"mean of q over {length}")
    row[2].plot(depths, lowest, color=COLORS[0], linewidth=1.2)
    row[2].axhline(0, color="black", linewidth=0.6)
    if shortest:
        row[2].axvline(shortest, color=COLORS[1], linewidth=1, label=f"T* = {shortest}")
    if model.facts["paper"]:
        for one in published:
            if one.curve.figure == figure and one.quantity == "t_star_first":
                row[2].axvline(one.value, label=f"paper's model: {one.value:g}", **PAPER)
    labels(row[2], "smallest window mean", "window length T", "w(T)")
    if row[2].get_legend_handles_labels()[0]:
        row[2].legend(fontsize=7, frameon=False)


def windows(found: Found, published: Sequence[Published]) -> Figure:
    """Draw w(T) of the first token and of the worst token, the smallest over draws.

    Args:
        found: what was measured.
        published: the paper's numbers.

    Returns:
        A row of panels per model, one per variant of the published figure.
    """
    names = _variants(found, "figure6")
    if not names:
        return nothing_to_show("no variant of this run is of that kind")
    made, axes = rows_of_panels(len(found.models), len(names), width=3.2)
    for row, (name, model) in zip(axes, found.models.items(), strict=True):
        for axis, variant in zip(row, names, strict=True):
            for index, (column, label) in enumerate(
                (("first_token", "first token"), ("worst", "all tokens"))
            ):
                parts = _minima(model, variant, column)
                if parts.empty:
                    continue
                lowest = np.min(np.stack(parts.tolist()), axis=0)
                lengths = np.arange(1, len(lowest) + 1)
                color = COLORS[index]
                axis.plot(lengths, lowest, color=color, linestyle=STYLES[index], label=label)
                if (lowest > 0).any():
                    axis.axvline(int((lowest > 0).argmax()) + 1, color=color, linewidth=0.8)
            axis.axhline(0, color="black", linewidth=0.6)
            axis.set_yscale("symlog", linthresh=_threshold(model, variant))
            _published_lines(axis, model, variant, found, published)
            labels(axis, f"{name}, {variant}", "window length T", "smallest w(T) over draws")
    legend(made, axes, columns=3)
    return made


def gate_strength(found: Found) -> Figure:
    """Draw where tokens end against the share of the gate that is left.

    Args:
        found: what was measured.

    Returns:
        A panel per measure, a line per model.
    """
    alike = {
        name: variant
        for name, variant in found.variants.items()
        if {**variant, "gate": 1.0} == {**_plain(), "gate": 1.0}
    }
    if len(alike) < 2:
        return nothing_to_show("this run has one strength of the gate only")
    made = Figure(figsize=(9, 3.6), layout="constrained")
    axes = made.subplots(1, len(MEASURES))
    for axis, (measure, label) in zip(axes, MEASURES.items(), strict=True):
        for index, (name, model) in enumerate(found.models.items()):
            points = sorted(
                (variant["gate"], ends(model, key)[measure].to_numpy())
                for key, variant in alike.items()
            )
            shares = [share for share, _ in points]
            means = [values.mean() for _, values in points]
            spread = [values.std(ddof=1) if len(values) > 1 else 0.0 for _, values in points]
            axis.errorbar(
                shares, means, yerr=spread, color=COLORS[index], marker="o", capsize=3, label=name
            )
        labels(axis, "", "share of the gate", f"{label}, at the end")
    axes[0].legend(fontsize=8, frameon=False)
    return made


def where_in_depth(found: Found) -> Figure:
    """Draw how far a layer moves tokens, and what it does to agreement, in the model's own depth.

    Args:
        found: what was measured.

    Returns:
        Two panels per model, a line per variant that visits the layers in turn.
    """
    names = [name for name, variant in found.variants.items() if variant["weights"] == "cycle"]
    if not names:
        return nothing_to_show("no variant of this run visits the model's layers in turn")
    made, axes = rows_of_panels(len(found.models), 2)
    for row, (name, model) in zip(axes, found.models.items(), strict=True):
        for index, variant in enumerate(names):
            rows = _rows_of(model, variant)
            rows = rows[rows["depth"] <= model.facts["layers"]]
            means = rows.groupby("depth")[["step", "lambda1"]].mean()
            line = look(index)
            row[0].plot(means.index[1:], means["step"][1:], marker=".", label=variant, **line)
            row[1].plot(means.index[1:], means["lambda1"].diff()[1:], marker=".", **line)
        row[1].axhline(0, color="black", linewidth=0.6)
        labels(row[0], name, "layer", "|τF| / |x|, mean")
        labels(row[1], name, "layer", r"change of $\bar\lambda_1$")
    legend(made, axes, columns=4)
    return made


def by_position(found: Found) -> Figure:
    """Draw T* and the share of negative interactions against a token's position.

    Args:
        found: what was measured.

    Returns:
        Two panels per model: median T* and mean share over draws, of variants not repeated.
    """
    names = [name for name, variant in found.variants.items() if variant["weights"] != "repeat"]
    made, axes = rows_of_panels(len(found.models), 2)
    for row, (name, model) in zip(axes, found.models.items(), strict=True):
        rows = model.windows[model.windows["quantity"] == "q_token"]
        for index, variant in enumerate(names):
            part = rows[(rows["variant"] == variant) & (rows["status"] == "completed")]
            line = look(index)
            grouped = part.groupby("token")
            # A token without T* is beyond the run: it counts as longer than every window.
            shortest = part.assign(t_star=part["t_star"].astype(float).fillna(np.inf))
            median = shortest.groupby("token")["t_star"].median()
            row[0].plot(median.index, median.replace(np.inf, np.nan), label=variant, **line)
            row[1].plot(grouped["negative_share"].mean(), **line)
        row[0].set_yscale("log")
        labels(row[0], name, "position of the token", "T*, median over draws")
        labels(row[1], name, "position of the token", "share of depths with q < 0")
    legend(made, axes, columns=4)
    return made


def _plain() -> dict[str, object]:
    """Return the model's own way to be iterated."""
    return {
        "system": "mixer", "weights": "cycle", "layers": None, "gate": 1.0, "silu": True,
        "conv": True, "update": "residual", "tau": 1.0,
    }  # fmt: skip


def _variants(found: Found, figure: str) -> list[str]:
    names = [n for c in CURVES if c.figure == figure for n in variants_of(c, found.variants)]
    return list(dict.fromkeys(names))


def _rows_of(model: Model, variant: str) -> pd.DataFrame:
    rows = model.curves[model.curves["variant"] == variant]
    return rows[rows["status"] == "completed"]


def _minima(model: Model, variant: str, column: str) -> pd.Series:
    rows = model.minima
    rows = rows[(rows["variant"] == variant) & (rows["quantity"] == "q_token")]
    return rows[rows["status"] == "completed"].sort_values(["layer", "draw"])[column]


def _band(axis: Axes, rows: pd.DataFrame, measure: str, index: int, label: str) -> None:
    grouped = rows.groupby("depth")[measure]
    line = look(index)
    low, high, mean = grouped.min(), grouped.max(), grouped.mean()
    axis.fill_between(mean.index, low, high, color=line["color"], alpha=0.18, linewidth=0)
    axis.plot(mean.index, mean, label=label, **line)


def _levels(
    axis: Axes, model: Model, figure: str, quantity: str, published: Sequence[Published]
) -> None:
    """Draw the published levels; they are of the paper's checkpoint, whatever model this is."""
    if not model.facts["paper"]:
        return
    for one in published:
        if one.curve.figure == figure and one.quantity == quantity:
            axis.axhline(one.value, **PAPER)
            words = one.curve.title.split(", ", 1)[1]
            axis.annotate(
                f"paper's model, {words}: {one.value:g}", (0.99, one.value), fontsize=6,
                xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#555555",
            )  # fmt: skip


def _published_lines(
    axis: Axes, model: Model, variant: str, found: Found, published: Sequence[Published]
) -> None:
    if not model.facts["paper"]:
        return
    for one in published:
        same = one.curve.describes(found.variants[variant])
        if one.curve.figure == "figure6" and same and np.isfinite(one.value):
            axis.axvline(one.value, label="the paper's model, all tokens", **PAPER)


def _threshold(model: Model, variant: str) -> float:
    """Return where a symmetric logarithmic axis becomes linear: the middle of what is drawn."""
    parts = _minima(model, variant, "worst")
    if parts.empty:
        return 1.0
    values = np.abs(np.concatenate(parts.tolist()))
    found = float(np.median(values[values > 0])) if (values > 0).any() else 1.0
    return max(found, 1e-12)
