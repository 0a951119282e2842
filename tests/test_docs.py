"""The documents: generated ones are current, links lead somewhere, commands name what exists."""

import re
import runpy
from pathlib import Path

import pytest

from fedscan.experiments.registry import STAGES, tables

TABLES = tables()

TABLES_DOC = runpy.run_path("docs/make_tables.py")
DOCUMENTS = [Path("README.md"), *sorted(Path("docs").glob("*.md")), *Path("config").glob("*.md")]
DOCUMENTS += [Path("CONTRIBUTING.md"), Path("src/fedscan/README.md"), Path("benchmarks/README.md")]


def test_tables_are_current_and_all_there():
    # Regenerate with: python docs/make_tables.py
    assert Path("docs/tables.md").read_text() == TABLES_DOC["text"]()
    assert all(table.places for table in TABLES.values())
    assert Path("docs/algorithms.md").read_text() == TABLES_DOC["algorithms_text"]()
    assert TABLES_DOC["declared"]() in Path("docs/algorithms.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_and_named_files_exist(document):
    text = document.read_text()
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if "://" in target:
            continue
        assert (document.parent / target).exists(), target
    named = re.findall(r"`((?:src|tests|workflow|docs|benchmarks|config)/[\w./-]+)`", text)
    for name in named:
        assert Path(name).exists(), name


def test_every_document_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[^)]+\.md)\)", Path("README.md").read_text()))
    assert linked == {str(path) for path in Path("docs").glob("*.md")}


def test_one_word_leads_down_from_every_rule():
    rows = re.findall(
        r"(?m)^\| `(\w+)` \| `([\w.]+)` \|(.*)$", Path("src/fedscan/README.md").read_text()
    )
    assert {rule: module for rule, module, _ in rows} == {
        rule: stage.module.removeprefix("fedscan.") for rule, stage in STAGES.items()
    }
    for rule, module, rest in rows:
        tables, test, folder = re.findall(r"`([^`]+)`", rest)
        room = Path("src/fedscan", *module.split(".")[:-1])
        assert all((room / name).is_file() for name in tables.split(", ")), rule
        assert Path("tests", *module.split(".")[:-1], test).is_file(), rule
        assert folder in Path("README.md").read_text(), rule
