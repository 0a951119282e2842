"""The published numbers that ship with an experiment."""

import importlib.resources
from collections.abc import Sequence

import pandas as pd


def published(package: str, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Read tables of a paper.

    Args:
        package: dotted name of the folder of CSV files.
        names: files without suffix, e.g. 'table17'.

    Returns:
        Name -> its rows.
    """
    folder = importlib.resources.files(package)
    return {name: pd.read_csv((folder / f"{name}.csv").open(encoding="utf-8")) for name in names}
