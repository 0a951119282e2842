"""Figures as files."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from fedscan.io import atomic


def save_figure(figure: Figure, stem: Path) -> None:
    """Save a figure as PNG and SVG with the same bytes every time.

    Args:
        figure: what to save.
        stem: path without ending.
    """
    with matplotlib.rc_context({"svg.hashsalt": "fedscan"}):
        with atomic.replacing(f"{stem}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
        with atomic.replacing(f"{stem}.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
