"""Figures of the claims: decay with fixed routing, and constructed retrieval."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedscan.analysis.style import nothing_to_show, panel
from fedscan.theory.envelopes import attention_stack_envelope, recurrence_stack_envelope
from fedscan.theory.feedback import decay_bound, uniform_kernel

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Of the comparison classes in the figure: layers, and decay per token.
LAYERS, RATE = 4, 0.02


def decay_theory(gains: list[float]) -> Figure:
    """Draw the kernel of uniform routing and its bound.

    Args:
        gains: one pair of lines each.

    Returns:
        |K| of sources 0 and 30 against lag, with Theorem 8's bound (c_2 = 1) and 1 / lag.
    """
    if not gains:
        return nothing_to_show("no gains are configured")
    figure, axis = panel((6.4, 4.4))
    lags = np.unique(np.geomspace(1, 10**4, 200).astype(int))
    for color, gain in zip(COLORS, gains, strict=False):
        for source, look in ((0, "-"), (30, "--")):
            values = uniform_kernel(gain, float(source), lags)
            axis.plot(lags, values, color=color, linestyle=look,
                      label=f"gain {gain:g}, source {source}")  # fmt: skip
        bound = decay_bound(gain, 1.0, lags)
        if bound is not None:
            axis.plot(lags, bound, color=color, linestyle=":", linewidth=1)
    axis.plot(lags, 1 / (lags + 1), color="black", linewidth=1, label="attention, 1 / (lag + 1)")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("lag (tokens); dotted: bound of Theorem 8")
    axis.set_ylabel("weight of a source, uniform routing")
    axis.legend(fontsize=7, frameon=False)
    return figure


def retrieval_profiles(rows: pd.DataFrame) -> Figure:
    """Draw margins of the constructed retrieval.

    Args:
        rows: table ``sessa_retrieval``.

    Returns:
        A line per construction at its largest horizon, crosses from real layers, and the
        envelopes of attention and of recurrences that forget.
    """
    if rows.empty:
        return nothing_to_show("no retrieval was constructed")
    figure, axis = panel((6.8, 4.6))
    pairs = list(dict.fromkeys(zip(rows["beta"], rows["layers"], strict=True)))
    for color, (beta, layers) in zip(COLORS, pairs, strict=False):
        own = rows[(rows["beta"] == beta) & (rows["layers"] == layers)]
        kernel = own[own["level"] == "kernel"]
        far = kernel[kernel["horizon"] == kernel["horizon"].max()]
        label = f"Sessa, β {beta:g}, {layers} layer(s): exponent {layers * (1 - beta) - 1:g}"
        axis.plot(far["lag"], far["margin"], color=color, label=label)
        built = own[own["level"] == "weights"]
        axis.scatter(built["lag"], built["margin"], color=color, s=14, marker="x")
    lags = np.geomspace(1, rows["lag"].max(), 200)
    attention = attention_stack_envelope(lags, LAYERS)
    axis.plot(lags, attention, color="black", linestyle="--", linewidth=1,
              label=f"attention's envelope, {LAYERS} layers")  # fmt: skip
    mamba = recurrence_stack_envelope(lags, LAYERS, RATE)
    axis.plot(lags, mamba / mamba.max(), color="black", linestyle=":", linewidth=1,
              label=f"Mamba's envelope, {LAYERS} layers, rate {RATE:g}, scaled")  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(1e-4, None)
    axis.set_xlabel("lag from the source (tokens); crosses: real layers")
    axis.set_ylabel("margin")
    axis.legend(fontsize=7, frameon=False)
    return figure
