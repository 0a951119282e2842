"""Figures of the claims: decay with fixed routing, and constructed retrieval."""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedscan.analysis.style import nothing_to_show, panel
from fedscan.seeds import generator
from fedscan.theory.envelopes import attention_stack_envelope, recurrence_stack_envelope
from fedscan.theory.feedback import decay_bound, kernel, routing, uniform_kernel

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Of the comparison classes in the figure: layers, and decay per token.
LAYERS, RATE = 4, 0.02
# Of random routing in the figure: tokens, and the logits' spread.
TOKENS, SPREAD = 400, 0.3


def decay_theory(gains: list[float]) -> Figure:
    """Draw the kernel of uniform routing and its bound.

    Args:
        gains: one pair of lines each.

    Returns:
        |K| of uniform routing from sources 0 and 30 against lag (closed form), and of random
        routing the largest over sources (dots); Theorem 8's bound for either, where it claims
        something, and 1 / lag.
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
        short, largest, c2 = random_decay(gain)
        axis.scatter(short, largest, color=color, s=6)
        for at, constant in ((lags, 1.0), (short, c2)):
            bound = decay_bound(gain, constant, at)
            if bound is not None:
                axis.plot(at, bound, color=color, linestyle=":", linewidth=1)
    axis.plot(lags, 1 / (lags + 1), color="black", linewidth=1, label="attention, 1 / (lag + 1)")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("lag (tokens); dots: random routing; dotted: bounds of Theorem 8")
    axis.set_ylabel("weight of a source in the loop")
    axis.legend(fontsize=7, frameon=False)
    return figure


def random_decay(gain: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return how far random routing reaches.

    Args:
        gain: largest; gains are uniform between it and its negative.

    Returns:
        Lags; the largest |K| over sources at each; c_2 of the logits' spread.
    """
    stream = generator(0, "decay figure", repr(gain))
    logits = stream.uniform(0, SPREAD, (TOKENS, TOKENS))
    K = np.abs(kernel(routing(logits, stream.uniform(-gain, gain, TOKENS))))
    lags = np.unique(np.geomspace(1, TOKENS - 1, 40).astype(int))
    return lags, np.array([np.diagonal(K, -lag).max() for lag in lags]), math.exp(SPREAD)


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
        levels = own[own["level"] == "kernel"]
        far = levels[levels["horizon"] == levels["horizon"].max()]
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
