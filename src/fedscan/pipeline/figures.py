"""Figures as files."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from fedscan.io import atomic


def save_figure(draw: Callable[[], Figure], stem: Path) -> None:
    """Draw a figure and save it as PNG and SVG, with the same bytes every time.

    Args:
        draw: makes the figure. Called here, where matplotlib has its own settings: a user's
            matplotlibrc or style would change fonts, grids and boxes.
        stem: path without ending.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "fedscan"
        figure = draw()
        with atomic.replacing(f"{stem}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
        with atomic.replacing(f"{stem}.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
