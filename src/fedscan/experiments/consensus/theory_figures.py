"""Figures of the random instances: the share that reaches consensus, and how fast."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedscan.analysis.style import nothing_to_show, panel
from fedscan.experiments.consensus.drawing import COLORS, labels


def figure7(rows: pd.DataFrame | None) -> Figure:
    """Draw the share of starts that reach consensus against the threshold of Theorem V.1.

    Args:
        rows: table ``consensus_instances``.

    Returns:
        A point per instance with a definite kernel; the threshold corrected and as printed, and
        the same instances with SiLU.
    """
    found = pd.DataFrame() if rows is None else rows.dropna(subset="c_eff")
    if found.empty:
        return nothing_to_show("no random instance has a threshold")
    figure, axis = panel((6.4, 3.8))
    plain, gated = found[~found["silu"]], found[found["silu"]]
    for index, (part, column, label, marker) in enumerate(
        (
            (plain, "c_eff", "threshold corrected", "o"),
            (plain, "c_eff_printed", "threshold as printed", "x"),
            (gated, "c_eff", "with SiLU (not proved), corrected", "^"),
        )
    ):
        shares = part["reached"] / part["starts"]
        axis.scatter(part[column], shares, s=30, color=COLORS[index], marker=marker, label=label)
    axis.set_ylim(-0.05, 1.05)
    axis.set_xlim(-0.03, 1.03)
    labels(
        axis,
        "",
        "threshold c_eff: above it, consensus is proved",
        "share reaching it by the horizon",
    )
    axis.legend(fontsize=8, frameon=False)
    return figure


def kernels(rows: pd.DataFrame | None) -> Figure:
    """Draw measured, linearised and certified rates per kind of kernel.

    Args:
        rows: table ``consensus_instances``.

    Returns:
        A point per instance, on a logarithmic axis.
    """
    if rows is None:
        return nothing_to_show("no random instances")
    kinds = [
        (f"{kernel} {amount:g}" if kernel == "definite" else str(kernel), part)
        for (kernel, amount), part in rows.groupby(["kernel", "anisotropy"], sort=False)
    ]
    figure, axis = panel((7.2, 3.8))
    drawn = (
        ("rate_measured", False, "measured", "o"),
        ("rate_linear", False, "linearised", "x"),
        ("rate_certified", False, "certified, last token", "v"),
        ("rate_measured", True, "measured, with SiLU", "^"),
    )
    for index, (column, silu, label, marker) in enumerate(drawn):
        for place, (_, part) in enumerate(kinds):
            values = part[part["silu"] == silu][column].dropna().to_numpy(float)
            where = np.full(len(values), place + 0.16 * (index - 1.5))
            word = label if place == 0 else None
            axis.scatter(where, values, s=26, color=COLORS[index], marker=marker, label=word)
    axis.set_yscale("log")
    axis.set_xticks(range(len(kinds)), [name for name, _ in kinds], fontsize=8)
    labels(axis, "", "", "rate of 1 - |z^a| (1 / time)")
    axis.legend(fontsize=8, frameon=False, ncols=2)
    return figure
