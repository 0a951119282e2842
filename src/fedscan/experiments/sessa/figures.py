"""Figures of Sessa's comparison."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedscan.analysis.style import nothing_to_show, panel
from fedscan.experiments.sessa.drawing import COLORS, LABELS
from fedscan.experiments.sessa.numbers import Found, chosen, selected
from fedscan.experiments.sessa.theory_figures import decay_theory, retrieval_profiles

SMOOTHED = 20
# Kinds of profiles that are drawn, and what they are.
PROFILES = {
    "mixer": "the mixer, routing fixed",
    "block": "a block, end to end",
    "stack": "all blocks, end to end",
}


def figures(found: Found) -> dict[str, Callable[[], Figure]]:
    """Return what draws every figure.

    Args:
        found: tables.

    Returns:
        File stem -> function without arguments.
    """
    return {
        "lags": lambda: lags(found),
        "ceilings": lambda: ceilings(found),
        "curves": lambda: curves(found),
        "recall": lambda: recall(found),
        "decay": lambda: decay(found),
        "gains": lambda: gains(found),
        "hops": lambda: hops(found),
        "federated": lambda: federated(found),
        "decay_theory": lambda: decay_theory(found.gains),
        "retrieval": lambda: retrieval_profiles(found.retrieval),
    }


def lags(found: Found) -> Figure:
    """Draw accuracy on mqar against how many times longer lags are than in training.

    Args:
        found: tables.

    Returns:
        A line per mixer (mean over seeds, each a point), and what needs no learning.
    """
    rows = _whole(selected(found), "mqar")
    if rows.empty:
        return nothing_to_show("task mqar is switched off, or no run was completed")
    figure, axis = panel((6.2, 4.2))
    for mixer, own in rows.groupby("mixer", sort=False):
        _line(axis, own, "factor", "accuracy", str(mixer))
    _levels(axis, found.baselines["mqar"])
    axis.set_xscale("log", base=2)
    factors = sorted(rows["factor"].unique())
    axis.set_xticks(factors, [f"{f}x" for f in factors])
    axis.minorticks_off()
    axis.set_xlabel("lag of test queries, as a multiple of training's")
    axis.set_ylabel("token accuracy")
    axis.legend(fontsize=8, frameon=False)
    return figure


def ceilings(found: Found) -> Figure:
    """Draw accuracy on soup beside the best that is possible.

    Args:
        found: tables.

    Returns:
        A group of points per mixer and length, the Bayes rule above, chance below.
    """
    rows = _whole(selected(found), "soup")
    if rows.empty:
        return nothing_to_show("task soup is switched off, or no run was completed")
    figure, axis = panel((6.2, 4.2))
    factors, mixers = sorted(rows["factor"].unique()), list(dict.fromkeys(rows["mixer"]))
    for place, factor in enumerate(factors):
        own = rows[rows["factor"] == factor]
        for index, mixer in enumerate(mixers):
            values = own[own["mixer"] == mixer]["accuracy"].to_numpy(float)
            x = place + 0.14 * (index - (len(mixers) - 1) / 2)
            label = LABELS[mixer] if place == 0 else None
            axis.scatter(np.full(len(values), x), values, s=28, color=COLORS[mixer], label=label)
        top = own["ceiling"].iloc[0]
        label = "best possible (Bayes rule)" if place == 0 else None
        axis.hlines(top, place - 0.4, place + 0.4, color="black", linewidth=1.2, label=label)
    _levels(axis, found.baselines["soup"])
    axis.set_xticks(
        range(len(factors)), [f"{f}x as long" if f > 1 else "as trained" for f in factors]
    )
    axis.set_xlim(-0.6, len(factors) - 0.4)
    axis.set_ylim(0, 1.02)
    axis.set_ylabel("test accuracy")
    # Below chance there is room.
    axis.legend(fontsize=7, frameon=False, loc="lower center", ncols=2)
    return figure


def curves(found: Found) -> Figure:
    """Draw training losses.

    Args:
        found: tables.

    Returns:
        A panel per task, a line per mixer of its chosen learning rate, means over seeds.
    """
    keys = ["task", "mixer", "width", "seed", "lr"]
    rows = found.curves.merge(chosen(found.runs)[keys], on=keys)
    if rows.empty:
        return nothing_to_show("no run was completed")
    tasks = list(dict.fromkeys(rows["task"]))
    figure, axes = _panels(len(tasks))
    for axis, task in zip(axes, tasks, strict=True):
        own = rows[rows["task"] == task]
        own = own[own["width"] == own["width"].max()]
        for mixer, part in own.groupby("mixer", sort=False):
            mean = part.groupby("step")["loss"].mean().rolling(SMOOTHED, min_periods=1).mean()
            axis.plot(mean.index, mean, color=COLORS[str(mixer)], label=LABELS[str(mixer)])
        if "chance" in found.baselines[task]:
            level = -np.log(found.baselines[task]["chance"])
            axis.axhline(level, color="black", linewidth=0.8, linestyle=":", label="chance")
        axis.set_title(task, fontsize=9)
        axis.set_xlabel("step")
    axes[0].set_ylabel(f"training loss, mean of {SMOOTHED} steps (nats)")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def recall(found: Found) -> Figure:
    """Draw accuracy on recall against width.

    Args:
        found: tables.

    Returns:
        A panel per number of pairs, a line per mixer.
    """
    rows = selected(found)
    rows = rows[(rows["task"] == "recall") & (rows["group"] == "pairs") & (rows["split"] == "test")]
    rows = rows[rows["factor"] == 1]
    if rows.empty:
        return nothing_to_show("task recall is switched off, or no run was completed")
    counts = sorted(set(rows["value"]), key=int)
    figure, axes = _panels(len(counts))
    for axis, count in zip(axes, counts, strict=True):
        for mixer, own in rows[rows["value"] == count].groupby("mixer", sort=False):
            _line(axis, own, "width", "accuracy", str(mixer))
        axis.axhline(found.baselines["recall"]["chance"], color="black", linewidth=0.8, ls=":")
        axis.set_title(f"{count} pairs", fontsize=9)
        axis.set_xlabel("width of the model (channels)")
        axis.set_xticks(sorted(rows["width"].unique()))
        axis.set_ylim(0, 1.02)
    axes[0].set_ylabel("token accuracy")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def decay(found: Found) -> Figure:
    """Draw how far a token reaches, trained models.

    Args:
        found: tables.

    Returns:
        A panel per kind, a line per mixer: the largest over layers and heads at every lag,
        geometric mean over seeds; the class of the smallest AIC in the legend.
    """
    rows = found.jacobians[found.jacobians["weights"] == "trained"]
    if rows.empty:
        return nothing_to_show("no trained model was diagnosed")
    task = next(t for t in ("mqar", "soup", "stories", "recall") if t in set(rows["task"]))
    rows = rows[(rows["task"] == task) & (rows["norm"] > 0)]
    figure, axes = _panels(len(PROFILES))
    for axis, (kind, title) in zip(axes, PROFILES.items(), strict=True):
        for mixer in dict.fromkeys(rows["mixer"]):
            # Without the loop the mixer is its forward attention.
            wanted = [kind]
            own = rows[(rows["mixer"] == mixer) & rows["kind"].isin(wanted)]
            if own.empty and kind == "mixer":
                wanted = ["forward"]
                own = rows[(rows["mixer"] == mixer) & rows["kind"].isin(wanted)]
            if own.empty:
                continue
            logs = own.groupby(["seed", "lag"])["norm"].max().map(np.log).groupby("lag").mean()
            label = f"{LABELS[mixer]}: {_class(found.decay, task, mixer, wanted)}"
            axis.plot(logs.index, np.exp(logs), color=COLORS[mixer], label=label, linewidth=1.3)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("lag (tokens)")
        axis.legend(fontsize=6, frameon=False)
    axes[0].set_ylabel(f"influence on the last position, {task}")
    return figure


def _class(decays: pd.DataFrame, task: str, mixer: str, kinds: Sequence[str]) -> str:
    own = decays[(decays["task"] == task) & (decays["mixer"] == mixer)]
    own = own[(own["weights"] == "trained") & own["kind"].isin(kinds)]
    counts = own["decay_class"].value_counts()
    return str(min(counts[counts == counts.max()].index)) if len(counts) else "none"


def gains(found: Found) -> Figure:
    """Draw the loop's regime by layer, before and after training.

    Args:
        found: tables.

    Returns:
        A panel per quantity; hollow before, filled after.
    """
    names = {"gain_median": "median gain", "c2": "c2: largest t α", "eta": "η = ρ c2"}
    rows = found.regime[found.regime["quantity"].isin(list(names))]
    rows = rows[rows["weights"] != "diffuse"]
    if rows.empty:
        return nothing_to_show("no model has a feedback loop")
    figure, axes = _panels(len(names))
    for axis, (name, title) in zip(axes, names.items(), strict=True):
        own = rows[rows["quantity"] == name]
        pairs = list(dict.fromkeys(zip(own["task"], own["mixer"], strict=True)))
        for index, (task, mixer) in enumerate(pairs):
            part = own[(own["task"] == task) & (own["mixer"] == mixer)]
            for weights, fill in (("initial", "none"), ("trained", COLORS[mixer])):
                values = part[part["weights"] == weights]
                x = index + 0.16 * (values["layer"] - (part["layer"].max()) / 2)
                axis.scatter(
                    x, values["value"], s=26, facecolors=fill, edgecolors=COLORS[mixer],
                    label=weights if index == 0 else None,
                )  # fmt: skip
        single = len({mixer for _, mixer in pairs}) == 1
        words = [task if single else f"{task}\n{mixer}" for task, mixer in pairs]
        axis.set_xticks(range(len(pairs)), words, fontsize=7)
        axis.set_title(title, fontsize=9)
    if (rows["quantity"] == "eta").any():
        axes[-1].axhline(1, color="black", linewidth=0.8, linestyle=":")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def hops(found: Found) -> Figure:
    """Draw how much of s its first feedback steps make up.

    Args:
        found: tables.

    Returns:
        A line per task, layer and weights.
    """
    rows = found.regime[found.regime["quantity"].str.startswith("hops_")]
    rows = rows[rows["mixer"] == "sessa"]
    if rows.empty:
        return nothing_to_show("sessa is not among the mixers")
    rows = rows.assign(hop=rows["quantity"].str.removeprefix("hops_").astype(int))
    figure, axis = panel((6.2, 4.2))
    looks = {"initial": ":", "trained": "-", "diffuse": "--"}
    tasks = list(dict.fromkeys(rows["task"]))
    shades = ["#D55E00", "#0072B2", "#009E73", "#CC79A7"]
    for (task, weights), own in rows.groupby(["task", "weights"], sort=False):
        mean = own.groupby("hop")["value"].mean()
        axis.plot(
            mean.index, mean, color=shades[tasks.index(str(task))], linestyle=looks[str(weights)],
            label=f"{task}, {weights}",
        )  # fmt: skip
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xlabel("feedback steps k")
    axis.set_ylabel("‖Σ over i ≤ k of Bⁱ f‖ / ‖s‖, mean over layers")
    axis.legend(fontsize=7, frameon=False)
    return figure


def federated(found: Found) -> Figure:
    """Draw federated training of the same models.

    Args:
        found: tables.

    Returns:
        A panel per task: validation loss by round, a line per mixer and heterogeneity.
    """
    rows = found.federated_rounds
    if rows is None or rows.empty:
        return nothing_to_show("federated training is switched off")
    tasks = list(dict.fromkeys(rows["task"]))
    figure, axes = _panels(len(tasks), width=5.2)
    looks = dict(zip(sorted(rows["beta"].unique()), ("-", "--", ":", "-."), strict=False))
    for axis, task in zip(axes, tasks, strict=True):
        own = rows[rows["task"] == task]
        for (mixer, beta), part in own.groupby(["mixer", "beta"], sort=False):
            mean = part.groupby("round")["validation_loss"].mean()
            axis.plot(
                mean.index, mean, marker="o", markersize=3, color=COLORS[str(mixer)],
                linestyle=looks.get(beta, "-"), label=f"{LABELS[str(mixer)]}, β {beta:g}",
            )  # fmt: skip
        axis.set_title(task, fontsize=9)
        axis.set_xlabel("round")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("validation loss of the global model (nats)")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def _whole(rows: pd.DataFrame, task: str) -> pd.DataFrame:
    same = (rows["task"] == task) & (rows["group"] == "all") & (rows["split"] == "test")
    return rows[same]


def _line(axis: Axes, rows: pd.DataFrame, x: str, y: str, mixer: str) -> None:
    mean = rows.groupby(x)[y].mean()
    axis.plot(mean.index, mean, color=COLORS[mixer], label=LABELS[mixer], linewidth=1.4)
    axis.scatter(rows[x], rows[y], color=COLORS[mixer], s=18)


def _levels(axis: Axes, rules: Mapping[str, float]) -> None:
    words = {"chance": "chance", "stored_value": "any stored value"}
    for (name, value), look in zip(rules.items(), (":", "--"), strict=False):
        axis.axhline(value, color="black", linewidth=0.9, linestyle=look, label=words[name])


def _panels(count: int, width: float = 3.6) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(max(width * count, 5.0), 3.8), layout="constrained")
    axes: Iterable[Axes] = figure.subplots(1, count, squeeze=False)[0]
    found = list(axes)
    for axis in found:
        axis.grid(alpha=0.3)
    return figure, found
