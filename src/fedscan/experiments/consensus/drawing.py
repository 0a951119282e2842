"""What the room's figures share: colours, panels, labels, one legend."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours; line styles repeat the distinction.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES = ("-", "--", "-.", ":")
PAPER = {"color": "#555555", "linewidth": 1.0, "linestyle": (0, (1, 2))}


def look(index: int) -> dict[str, str]:
    """Return colour and line style of the i-th line; a colour that comes again has another style.

    Args:
        index: from 0.
    """
    style = STYLES[(index + index // len(COLORS)) % len(STYLES)]
    return {"color": COLORS[index % len(COLORS)], "linestyle": style}


def rows_of_panels(count: int, columns: int, width: float = 4.6) -> tuple[Figure, np.ndarray]:
    """Return a figure of panels, a row per model.

    Args:
        count: rows.
        columns: panels a row.
        width: of a panel in inches.

    Returns:
        The figure and its panels, (count, columns).
    """
    size = (width * columns + 0.4, 3.2 * count + 0.6)
    made = Figure(figsize=size, layout="constrained")
    return made, made.subplots(count, columns, squeeze=False)


def labels(axis: Axes, title: str, x: str, y: str) -> None:
    """Give a panel its words and a light grid.

    Args:
        axis: the panel.
        title: above it.
        x: along it.
        y: beside it.
    """
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(labelsize=7)


def legend(made: Figure, axes: np.ndarray, columns: int) -> None:
    """Put one legend below all panels; equal labels count once.

    Args:
        made: the figure.
        axes: its panels.
        columns: of the legend.
    """
    found: dict[str, Artist] = {}
    for axis in axes.ravel():
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        made.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=8,
            frameon=False,
        )  # fmt: skip
