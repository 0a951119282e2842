"""Which results the report shows: the declarative list in sections.yaml."""

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


def contents() -> list[Contents]:
    """Return the sections in the order of the page.

    Returns:
        Figures: file stem -> caption; tables: name in table ``numbers`` -> [title, caption].

    Raises:
        ValueError: if an entry lacks a key, has another one, or a table has no caption.
    """
    source = importlib.resources.files("fedscan.report") / "sections.yaml"
    found: list[dict[str, Any]] = yaml.safe_load(source.read_text(encoding="utf-8"))
    for entry in found:
        if set(entry) != set(Contents._fields):
            raise ValueError(f"sections.yaml: {entry.get('anchor')}: keys {list(entry)}")
        for name, words in entry["tables"].items():
            if len(words) != 2:
                raise ValueError(f"sections.yaml: {name}: expected [title, caption]")
    return [Contents(**entry) for entry in found]
