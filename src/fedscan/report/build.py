"""Stage ``html_report``: everything that was made -> one page that opens without a network.

The experiments come with the settings: each one's package, folders of results and page module.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd

from fedscan import __version__
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import CHECKS, NUMBERS
from fedscan.report import summary
from fedscan.report.contents import Contents, contents
from fedscan.report.numbers_view import numbers_view
from fedscan.report.page import Page, Section, TableView, figure_view, render

TITLE = "Federated learning of selective state-space models"


class Room(NamedTuple):
    """What the page needs to know of an experiment.

    Attributes:
        package: dotted name; page.yaml lies in it.
        page: module with any of ``subtitle(config, results)``, ``configured(config)``,
            ``found(config, results)``, ``cards(numbers, results)``, ``tables(results)``;
            '' if none.
        reruns: (part, target, what it is made from).
    """

    package: str
    page: str
    reruns: Sequence[Sequence[str]]


def run(job: Job) -> None:
    """Write the page from what is there; parts that are not there are left out and named.

    Args:
        job: settings: ``config``, the whole configuration, and ``rooms``, fields of ``Room``. Its
            folder receives index.html.
    """
    config, results = job.settings["config"], job.results
    rooms = [Room(*fields) for fields in job.settings["rooms"]]
    file = results / "check/checks.parquet"
    checks = parquet.read_frame(file, CHECKS) if file.exists() else None
    listed = [(room, contents(room.package)) for room in rooms]
    folders = [entry.folder for _, entries in listed for entry in entries]
    numbers = {
        folder: parquet.read_frame(path, NUMBERS)
        for folder in dict.fromkeys(folders)
        if (path := results / folder / "numbers.parquet").exists()
    }
    # A room speaks for itself once any of its results are there; one without results always.
    speaking = [
        importlib.import_module(room.page)
        for room, entries in listed
        if room.page and (not entries or any(entry.folder in numbers for entry in entries))
    ]
    sections = [
        summary.headline(
            [c for page in speaking for c in _asked(page, "cards", numbers, results) or ()], checks
        ),
        _what_was_run(speaking, config, results),
        *_sections(listed, numbers, results),
        summary.provenance(
            config,
            versions(),
            checks,
            [*(r for room in rooms for r in room.reruns), *summary.RERUNS],
        ),
    ]
    shown = [entry for _, entries in listed for entry in entries]
    absent = [entry.title for entry in shown if entry.folder not in numbers]
    job.report(f"{len(sections)} sections; not there: {', '.join(absent) or 'nothing'}")
    lines = [line for page in speaking if (line := _asked(page, "subtitle", config, results))]
    lines += [f"Not made yet: {', '.join(absent)}"] if absent else []
    page = Page(TITLE, ". ".join(lines), __version__, sections)
    atomic.write_text(job.folder / "index.html", render(page))


def _asked(page: ModuleType, name: str, *arguments: Any) -> Any:
    """Return what a page module's function says; None if it has no such function."""
    function = getattr(page, name, None)
    return None if function is None else function(*arguments)


def _what_was_run(
    speaking: Sequence[ModuleType], config: Mapping[str, Any], results: Path
) -> Section:
    facts = [fact for page in speaking for fact in _asked(page, "configured", config) or ()]
    tables: list[TableView] = []
    for page in speaking:
        if found := _asked(page, "found", config, results):
            facts += found[0]
            tables += found[1]
    return summary.what_was_run(facts, tables)


def _sections(
    listed: Sequence[tuple[Room, Sequence[Contents]]],
    numbers: Mapping[str, pd.DataFrame],
    results: Path,
) -> Iterator[Section]:
    for room, entries in listed:
        made = [entry for entry in entries if entry.folder in numbers]
        if not made:
            continue
        page = importlib.import_module(room.page) if room.page else None
        own = (_asked(page, "tables", results) if page else None) or {}
        for entry in made:
            yield _section(entry, numbers[entry.folder], own.get(entry.anchor, ()), results)


def _section(
    entry: Contents, numbers: pd.DataFrame, own: Sequence[TableView], results: Path
) -> Section:
    figures = []
    for stem, caption in entry.figures.items():
        file = results / entry.folder / f"{stem}.png"
        if file.exists():
            figures.append(
                figure_view(file.read_bytes(), caption, f"results/{entry.folder}/{file.name}")
            )
    tables = list(own)
    for name, (title, caption) in entry.tables.items():
        tables += numbers_view(numbers[numbers["table"] == name], title, caption)
    return Section(entry.anchor, entry.title, entry.intro, figures=figures, tables=tables)
