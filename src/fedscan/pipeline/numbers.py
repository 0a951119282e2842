"""A table of numbers as the three files a person or a program reads."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedscan.analysis.aligned_text import numbers_text
from fedscan.io import atomic, parquet


def write_numbers(table: pd.DataFrame, folder: str, provenance: Mapping[str, Any]) -> None:
    """Write numbers.parquet, numbers.csv and numbers.txt.

    Args:
        table: rows of table ``numbers``.
        folder: receives the files.
        provenance: what they were made from; kept in the Parquet file.
    """
    write_table(table, "numbers", folder, provenance)
    atomic.write_text(f"{folder}/numbers.txt", numbers_text(table))


def write_table(table: pd.DataFrame, name: str, folder: str, provenance: Mapping[str, Any]) -> None:
    """Write a table as Parquet and as CSV.

    Args:
        table: rows of table ``name``.
        name: of the table and, before the suffix, of the files.
        folder: receives the files.
        provenance: what it was made from; kept in the Parquet file.
    """
    parquet.write(f"{folder}/{name}.parquet", name, table, provenance)
    with atomic.replacing(f"{folder}/{name}.csv") as temporary:
        table.to_csv(temporary, index=False)
