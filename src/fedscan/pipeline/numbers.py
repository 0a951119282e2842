"""A table of numbers as the three files a person or a program reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.aligned_text import numbers_text
from fedscan.io import atomic, parquet
from fedscan.io.tables import Table
from fedscan.pipeline.tables import NUMBERS


def write_numbers(table: pd.DataFrame, folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write numbers.parquet, numbers.csv and numbers.txt.

    Args:
        table: rows of table ``numbers``.
        folder: receives the files.
        provenance: what they were made from; kept in the Parquet file.
    """
    write_table(table, NUMBERS, folder, provenance)
    atomic.write_text(folder / "numbers.txt", numbers_text(table))


def write_table(
    rows: pd.DataFrame, table: Table, folder: Path, provenance: Mapping[str, Any]
) -> None:
    """Write a table as Parquet and as CSV.

    Args:
        rows: its rows.
        table: the declaration; its name is that of the files.
        folder: receives the files.
        provenance: what it was made from; kept in the Parquet file.
    """
    parquet.write(folder / f"{table.name}.parquet", table, rows, provenance)
    with atomic.replacing(folder / f"{table.name}.csv") as temporary:
        rows.to_csv(temporary, index=False)
