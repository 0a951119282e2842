"""Numbers as text whose columns stand below each other, for a terminal."""

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import pandas as pd

Row = tuple[str, ...]


def aligned(rows: Sequence[Row], right: Collection[int], least: Sequence[int] = ()) -> str:
    """Lay rows out in columns.

    Args:
        rows: cells, the same number in every row.
        right: columns that are aligned right, as numbers are; others left.
        least: least width per column, where texts of several runs are to line up.

    Returns:
        A line per row, two spaces between columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if least:
        widths = [max(pair) for pair in zip(widths, least, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def short_number(value: Any) -> str:
    """Return a number with three digits, a whole one with all of them.

    Args:
        value: number, NaN or None.

    Returns:
        Nothing where there is no number.
    """
    if value is None or pd.isna(value):
        return ""
    number = float(str(value))
    if abs(number) < 1e9 and number == int(number):
        return str(int(number))
    return f"{number:.3g}"


def plus_minus(mean: float, deviation: float, digits: int) -> str:
    """Return a mean with its deviation.

    Args:
        mean: NaN where there is none.
        deviation: NaN where there is none, as of a single value.
        digits: after the point.

    Returns:
        E.g. '12.30 ± 0.45'.
    """
    if pd.isna(mean):
        return "n/a"
    if pd.isna(deviation):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def numbers_text(numbers: pd.DataFrame) -> str:
    """Return one block per table, ours beside the paper's.

    Args:
        numbers: table ``numbers``.

    Returns:
        Text with columns: row, quantity, ours with its interval, the paper's, note.
    """
    head = ("row", "quantity", "this run", "95% interval", "paper", "note")
    blocks = [
        f"{table}\n{aligned([head, *map(_row, part.to_dict('records'))], right=(2, 3, 4))}"
        for table, part in numbers.groupby("table", sort=False)
    ]
    return "\n\n".join(blocks) + "\n"


def _row(row: dict[Hashable, Any]) -> Row:
    low, high = short_number(row["low"]), short_number(row["high"])
    return (
        str(row["row"]),
        str(row["quantity"]),
        short_number(row["value"]),
        f"{low} .. {high}" if low else "",
        short_number(row["paper"]),
        str(row["note"]),
    )
