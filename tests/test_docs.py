"""The documents: generated ones are current, links lead somewhere, commands name what exists."""

import re
import runpy
from pathlib import Path

import pytest

from fedscan.experiments.registry import tables

TABLES = tables()

TABLES_DOC = runpy.run_path("docs/make_tables.py")
DOCUMENTS = [Path("README.md"), *sorted(Path("docs").glob("*.md")), *Path("config").glob("*.md")]


def test_tables_are_current_and_all_there():
    # Regenerate with: python docs/make_tables.py
    assert Path("docs/tables.md").read_text() == TABLES_DOC["text"]()
    assert all(table.places for table in TABLES.values())


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_and_named_files_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" in target:
            continue
        assert (document.parent / target).exists(), target
    named = re.findall(r"`((?:src|tests|workflow|docs|benchmarks|config)/[\w./-]+)`", text)
    for name in named:
        assert Path(name).exists(), name


def test_every_document_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[^)]+\.md)\)", Path("README.md").read_text()))
    assert linked == {str(path) for path in Path("docs").glob("*.md")}
