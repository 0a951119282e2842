"""Numbers beside the paper's as tables of the page."""

import pandas as pd

from fedscan.report.page import Cell, Column, TableView, cell, number_text

HEADINGS = ("row", "quantity", "this run", "95% interval", "paper", "difference", "note")


def numbers_view(numbers: pd.DataFrame, title: str, caption: str) -> list[TableView]:
    """Return one table of numbers, and apart from it the rows that only the paper has.

    Args:
        numbers: rows of table ``numbers`` with one value of ``table``.
        title: heading.
        caption: what to see.

    Returns:
        No, one or two views; equal notes are one numbered line below the table.
    """
    ours = numbers[numbers["value"].notna() | numbers["paper"].isna()]
    theirs = numbers[numbers["value"].isna() & numbers["paper"].notna()]
    views = []
    if len(ours):
        views.append(_view(ours, title, caption))
    if len(theirs):
        what = "Published numbers of cases that this configuration does not have."
        views.append(_view(theirs, f"{title}: only in the paper", what))
    return views


def _view(numbers: pd.DataFrame, title: str, caption: str) -> TableView:
    notes = [note for note in dict.fromkeys(numbers["note"]) if note]
    shown = [name for name in HEADINGS if _used(numbers, name)]
    rows = []
    for row in numbers.to_dict("records"):
        cells = {
            "row": Cell(str(row["row"])),
            "quantity": Cell(str(row["quantity"])),
            "this run": cell(row["value"]),
            "95% interval": Cell(_interval(row["low"], row["high"])),
            "paper": cell(row["paper"]),
            "difference": cell(row["difference"]),
            "note": Cell(str(notes.index(row["note"]) + 1) if row["note"] else ""),
        }
        rows.append([cells[name] for name in shown])
    numeric = {"this run", "paper", "difference"}
    columns = [Column(name, name in numeric) for name in shown]
    return TableView(title, caption, columns, rows, notes)


def _used(numbers: pd.DataFrame, heading: str) -> bool:
    columns = {"this run": "value", "95% interval": "low"}
    columns |= {"paper": "paper", "difference": "difference"}
    if heading in columns:
        return bool(numbers[columns[heading]].notna().any())
    return heading != "note" or bool((numbers["note"] != "").any())


def _interval(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"{number_text(low)} … {number_text(high)}"
