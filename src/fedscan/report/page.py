"""The parts of the page, and the page as one HTML text that needs no other file and no network."""

import base64
import importlib.resources
import math
from collections.abc import Sequence
from typing import NamedTuple

import jinja2
import pandas as pd


class Card(NamedTuple):
    """A headline number."""

    value: str
    label: str
    note: str = ""
    alarm: bool = False


def violations_card(numbers: pd.DataFrame, title: str) -> Card:
    """Return the card of checked values and those above their bound.

    Args:
        numbers: rows of table ``numbers`` that count them, as quantities ``evaluations`` or
            ``all_checks``, and ``violations``.
        title: what was checked.

    Returns:
        A card that asks for attention if there is a violation.
    """
    total = numbers.loc[numbers["quantity"].isin(["evaluations", "all_checks"]), "value"].sum()
    found = numbers.loc[numbers["quantity"] == "violations", "value"].sum()
    return Card(f"{number_text(found)} of {number_text(total)}", title, "", found > 0)


class Column(NamedTuple):
    """A column of a table."""

    name: str
    numeric: bool


class Cell(NamedTuple):
    """What a cell shows and, if it is a number, what it is sorted by."""

    text: str
    sort: float | None = None


class TableView(NamedTuple):
    """A table with its caption and notes."""

    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    folded: bool = True
    open: bool = False


class FigureView(NamedTuple):
    """A picture, base64; width and height in pixels."""

    png: str
    width: int
    height: int
    caption: str
    path: str


class Block(NamedTuple):
    """A folded text."""

    title: str
    text: str


# Name -> text, in order.
Facts = list[tuple[str, str]]


class Section(NamedTuple):
    """A section of the page."""

    anchor: str
    title: str
    intro: str = ""
    cards: Sequence[Card] = ()
    facts: Sequence[tuple[str, str]] = ()
    figures: Sequence[FigureView] = ()
    tables: Sequence[TableView] = ()
    blocks: Sequence[Block] = ()


class Page(NamedTuple):
    """The whole report."""

    title: str
    subtitle: str
    version: str
    sections: Sequence[Section]


def render(page: Page) -> str:
    """Return the page as HTML.

    Args:
        page: what to show; all of its text is escaped.

    Returns:
        One document: style, script and pictures are inside.
    """
    folder = importlib.resources.files("fedscan.report")
    source, style, script = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("template.html", "style.css", "script.js")
    )
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(source).render(page=page, style=style, script=script)


def number_text(value: float | None) -> str:
    """Return a number with four significant digits.

    Args:
        value: number; None and NaN have no text.

    Returns:
        E.g. '1,024', '0.3104', '1.2e-05', '∞'.
    """
    if value is None or pd.isna(value):
        return ""
    number = float(value)
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if number == int(number) and abs(number) < 1e9:
        return f"{int(number):,}".replace("-", "−")
    return f"{number:.4g}".replace("-", "−")


def cell(value: object) -> Cell:
    """Return the cell of a value.

    Args:
        value: text, number, truth value or missing.

    Returns:
        Numbers right-aligned and sorted by value.
    """
    if isinstance(value, bool):
        return Cell("yes" if value else "NO")
    if value is None or pd.isna(value):
        return Cell("")
    if isinstance(value, str):
        return Cell(value)
    return Cell(number_text(float(value)), float(value))


def table_view(
    frame: pd.DataFrame,
    title: str,
    caption: str,
    notes: Sequence[str] = (),
    folded: bool = True,
    unfolded: bool = False,
) -> TableView:
    """Return a frame as a table of the page.

    Args:
        frame: rows in the order shown first; column names are the headings.
        title: heading.
        caption: what to see.
        notes: numbered lines below.
        folded: whether the reader can fold it away.
        unfolded: whether it starts unfolded.

    Returns:
        The view.
    """
    columns = [
        Column(str(name), pd.api.types.is_numeric_dtype(frame[name])) for name in frame.columns
    ]
    rows = [[cell(value) for value in row] for row in frame.astype(object).to_numpy()]
    return TableView(title, caption, columns, rows, notes, folded, unfolded)


def figure_view(png: bytes, caption: str, path: str, scale: float = 0.6) -> FigureView:
    """Return a PNG as a figure of the page.

    Args:
        png: the file's bytes.
        caption: what to see; also the text for those who cannot see it.
        path: where the file lies.
        scale: shown pixels per pixel of the file.

    Returns:
        The view.

    Raises:
        ValueError: if it is not a PNG.
    """
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError(f"{path}: not a PNG file")
    width, height = (int.from_bytes(png[i : i + 4]) for i in (16, 20))
    text = base64.b64encode(png).decode("ascii")
    return FigureView(text, round(scale * width), round(scale * height), caption, path)
