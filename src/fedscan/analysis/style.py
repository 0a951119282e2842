"""Names, colours and lines of the algorithms, the same in every figure.

Each algorithm's file declares them. Colours are Okabe and Ito's, distinguishable with common
colour-vision deficiencies; line styles repeat the distinction for print in grey.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedscan.declared import algorithms

NAMES: dict[str, str] = {name: found.label for name, found in algorithms().items()}
LOOKS: dict[str, dict[str, Any]] = {name: found.look for name, found in algorithms().items()}
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
