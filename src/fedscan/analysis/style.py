"""Names, colours and lines of the algorithms, the same in every figure.

Colours are Okabe and Ito's, distinguishable with common colour-vision deficiencies; line styles
repeat the distinction for print in grey.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "fedadam": "FedAdam",
    "fedalign": "FedAlign",
    "feddyn": "FedDyn",
    "fedsam": "FedSAM",
    "fedexp": "FedExP",
    "diloco": "DiLoCo-style",
}
LOOKS: dict[str, dict[str, Any]] = {
    "fedavg": {"color": "#000000", "linestyle": "-", "linewidth": 2.0},
    "fedprox": {"color": "#0072B2", "linestyle": "-", "linewidth": 1.5},
    "scaffold": {"color": "#D55E00", "linestyle": "-", "linewidth": 1.5},
    "fedadam": {"color": "#CC79A7", "linestyle": "-", "linewidth": 1.5},
    "fedalign": {"color": "#999999", "linestyle": "--", "linewidth": 1.5},
    "feddyn": {"color": "#009E73", "linestyle": "-", "linewidth": 1.5},
    "fedsam": {"color": "#56B4E9", "linestyle": "--", "linewidth": 1.5},
    "fedexp": {"color": "#E69F00", "linestyle": "-.", "linewidth": 1.5},
    "diloco": {"color": "#9B870C", "linestyle": ":", "linewidth": 2.0},
}
# Diverging, from lower to higher perplexity; told apart with every common deficiency.
CHANGE_MAP = "PuOr_r"


def token_word(tokenizer: str) -> str:
    """Return what a perplexity is counted per.

    Args:
        tokenizer: name of the tokenizer.

    Returns:
        E.g. 'byte'.
    """
    return {"bytes": "byte", "gpt2": "GPT-2 token"}.get(tokenizer, f"{tokenizer} token")


def panel(size: tuple[float, float] = (5.4, 4.2)) -> tuple[Figure, Axes]:
    """Return a figure of one panel with a light grid.

    Args:
        size: width and height in inches.

    Returns:
        The figure and its panel.
    """
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    axis.grid(alpha=0.3)
    return figure, axis


def nothing_to_show(reason: str) -> Figure:
    """Return a figure that says why it is empty.

    Args:
        reason: one line.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(5.4, 1.6), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    axis.text(0.5, 0.5, reason, ha="center", va="center")
    return figure
