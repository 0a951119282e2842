"""The published numbers that ship with the package."""

import importlib.resources
from collections.abc import Sequence

import pandas as pd


def paper_tables(names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Read tables of the paper.

    Args:
        names: e.g. 'table17'.

    Returns:
        Name -> its rows.
    """
    folder = importlib.resources.files("fedscan.analysis") / "paper"
    return {name: pd.read_csv((folder / f"{name}.csv").open(encoding="utf-8")) for name in names}
