"""Which results an experiment shows: the declarative list in its page.yaml."""

import importlib.resources
from typing import Any, NamedTuple

import yaml


class Contents(NamedTuple):
    """A section: a folder of results, captions of its figures and tables."""

    anchor: str
    title: str
    folder: str
    intro: str
    figures: dict[str, str]
    tables: dict[str, list[str]]


def contents(package: str) -> list[Contents]:
    """Return an experiment's sections in the order of the page.

    Args:
        package: dotted name of the experiment's package.

    Returns:
        Figures: file stem -> caption; tables: name in table ``numbers`` -> [title, caption]. Empty
        if the experiment has no page.yaml.

    Raises:
        ValueError: if an entry lacks a key, has another one, or a table has no caption.
    """
    source = importlib.resources.files(package) / "page.yaml"
    if not source.is_file():
        return []
    found: list[dict[str, Any]] = yaml.safe_load(source.read_text(encoding="utf-8"))
    for entry in found:
        if set(entry) != set(Contents._fields):
            raise ValueError(f"{package}: page.yaml: {entry.get('anchor')}: keys {list(entry)}")
        for name, words in entry["tables"].items():
            if len(words) != 2:
                raise ValueError(f"{package}: page.yaml: {name}: expected [title, caption]")
    return [Contents(**entry) for entry in found]


def figures(package: str, folder: str) -> list[str]:
    """Return the figures of a folder of results: rules and page have one list.

    Args:
        package: dotted name of the experiment's package.
        folder: below results/.

    Returns:
        File stems in the order of the page.
    """
    entries = [entry for entry in contents(package) if entry.folder == folder]
    return [name for entry in entries for name in entry.figures]
