"""Figures of federated models and of merges, iterated over depth."""

import pandas as pd
from matplotlib.figure import Figure

from fedscan.analysis.style import LOOKS, NAMES, nothing_to_show
from fedscan.experiments.consensus.drawing import COLORS, PAPER, labels, legend
from fedscan.experiments.consensus.numbers import Found
from fedscan.experiments.consensus.study_numbers import extended, gate_effects


def over_rounds(found: Found) -> Figure:
    """Draw lambda1 of federated models against the round, a panel per beta and variant.

    Args:
        found: what was measured.

    Returns:
        A line per algorithm, mean over configurations; dotted: the initial model.
    """
    if found.runs is None or found.runs["lambda1"].isna().all():
        return nothing_to_show("no federated models were looked at")
    rows = extended(found.runs)
    runs, initial = rows[rows["kind"] == "run"], rows[rows["kind"] == "initial"]
    betas, names = sorted(runs["beta"].unique()), list(rows["variant"].unique())
    if not betas:
        return nothing_to_show("no federated model was completed")
    size = (3.4 * len(betas) + 0.4, 2.9 * len(names) + 0.9)
    made = Figure(figsize=size, layout="constrained")
    axes = made.subplots(len(names), len(betas), squeeze=False, sharey="row")
    for row, variant in zip(axes, names, strict=True):
        start = initial[initial["variant"] == variant]["lambda1"].mean()
        for axis, beta in zip(row, betas, strict=True):
            part = runs[(runs["variant"] == variant) & (runs["beta"] == beta)]
            for algorithm, own in part.groupby("algorithm", sort=False):
                means = own.groupby("round")["lambda1"].mean()
                look = {k: v for k, v in LOOKS[str(algorithm)].items() if k != "linewidth"}
                places = [0, *means.index] if pd.notna(start) else [*means.index]
                values = [start, *means] if pd.notna(start) else [*means]
                axis.plot(places, values, marker=".", label=NAMES[str(algorithm)], **look)
            if pd.notna(start):
                axis.axhline(start, label="initial model", **PAPER)
            labels(axis, f"{variant}, β = {beta:g}", "round", r"$\bar\lambda_1$")
    legend(made, axes, columns=5)
    return made


def against_perplexity(found: Found) -> Figure:
    """Draw lambda1 and the gate's effect against last-10 perplexity, a point per run.

    Args:
        found: what was measured.

    Returns:
        A panel per variant, and one of the gate's effect.
    """
    if found.runs is None:
        return nothing_to_show("no federated models were looked at")
    rows = extended(found.runs).dropna(subset=["val_ppl_last10"])
    rows = rows[rows["kind"] == "run"]
    if rows.empty:
        return nothing_to_show("no federated model was completed")
    names = list(rows["variant"].unique())
    effects = gate_effects(rows, found.variants)
    panels = [(name, rows[rows["variant"] == name], "lambda1") for name in names]
    if len(effects):
        first = rows[rows["variant"] == names[0]]
        joined = first.merge(effects, left_on="subject", right_index=True)
        panels.append(("effect of removing the gate", joined, "gate_effect"))
    made = Figure(figsize=(3.6 * len(panels) + 0.4, 3.9), layout="constrained")
    axes = made.subplots(1, len(panels), squeeze=False)
    for axis, (title, part, column) in zip(axes[0], panels, strict=True):
        for algorithm, own in part.groupby("algorithm", sort=False):
            color = LOOKS[str(algorithm)]["color"]
            axis.scatter(own["val_ppl_last10"], own[column], s=20, alpha=0.8, color=color,
                         label=NAMES[str(algorithm)])  # fmt: skip
        label = (
            r"$\bar\lambda_1$" if column == "lambda1" else r"$\bar\lambda_1$ without - with gate"
        )
        labels(axis, title, "last-10 validation perplexity", label)
    legend(made, axes, columns=5)
    return made


def of_merges(found: Found) -> Figure:
    """Draw lambda1 of a base, its specialists and their merges.

    Args:
        found: what was measured.

    Returns:
        A panel per base and variant; a point per model.
    """
    if found.merges is None:
        return nothing_to_show("no merges were looked at")
    rows = extended(found.merges)
    if rows.empty:
        return nothing_to_show("no merge was completed")
    groups = list(rows.groupby(["base", "variant"], sort=False))
    made = Figure(figsize=(3.8 * len(groups) + 0.4, 3.6), layout="constrained")
    axes = made.subplots(1, len(groups), squeeze=False)
    for axis, ((base, variant), part) in zip(axes[0], groups, strict=True):
        kinds = list(dict.fromkeys(part["kind"]))
        for place, kind in enumerate(kinds):
            own = part[part["kind"] == kind]["lambda1"]
            axis.scatter([place] * len(own), own, s=26, color=COLORS[place % len(COLORS)])
        among = part[part["kind"] == "specialist"]["lambda1"]
        if len(among):
            axis.axhspan(among.min(), among.max(), color="#999999", alpha=0.2)
        words = [kind.replace("best_", "best ").replace("_", " ") for kind in kinds]
        axis.set_xticks(range(len(kinds)), words, rotation=30, ha="right", fontsize=8)
        labels(axis, f"{base}, {variant}", "", r"$\bar\lambda_1$")
    return made
