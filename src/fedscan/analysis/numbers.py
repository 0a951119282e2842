"""Numbers of a table, one a row, so that ours and the paper's stand side by side."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

Key = tuple[str, str, str]


class Number(NamedTuple):
    """One number of a table."""

    table: str
    row: str
    quantity: str
    value: float
    low: float = np.nan
    high: float = np.nan
    note: str = ""


def numbers_table(numbers: list[Number], paper: Mapping[Key, float]) -> pd.DataFrame:
    """Put the paper's numbers beside ours.

    Args:
        numbers: ours.
        paper: (table, row, quantity) -> the paper's.

    Returns:
        Rows of table ``numbers``; numbers that only the paper has are rows without ours.
    """
    rows: list[dict[str, Any]] = [number._asdict() for number in numbers]
    found = {(row["table"], row["row"], row["quantity"]) for row in rows}
    missing = "not in this run: the configuration has no such case"
    rows += [
        {**Number(*key, np.nan)._asdict(), "note": missing} for key in paper if key not in found
    ]
    for row in rows:
        row["paper"] = paper.get((row["table"], row["row"], row["quantity"]))
    table = pd.DataFrame(rows, columns=[*Number._fields, "paper"])
    table["paper"] = table["paper"].astype(float)
    return table.assign(difference=table["value"] - table["paper"])
