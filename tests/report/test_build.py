"""The page is built from whatever experiments there are, and from what each one says."""

import sys
from types import ModuleType

import pytest

from fedscan.analysis.numbers import Number, numbers_table
from fedscan.io import parquet
from fedscan.pipeline.tables import NUMBERS
from fedscan.report import build
from fedscan.report.page import Card, table_view
from tests import jobs

SECTION = """
- anchor: first
  title: A first section
  folder: a
  intro: Words.
  figures: {}
  tables:
    one: [Table one, A caption.]
- anchor: second
  title: A second section
  folder: b
  intro: ''
  figures: {}
  tables: {}
"""


@pytest.fixture
def room(tmp_path, monkeypatch):
    """An experiment's package with a page."""
    folder = tmp_path / "package" / "someroom"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "page.yaml").write_text(SECTION)
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    page = ModuleType("someroom.page")
    page.subtitle = lambda config, results: "3 things"
    page.configured = lambda config: [("what", config["word"])]
    page.cards = lambda numbers, results: [Card("7", "of " + ", ".join(numbers))]
    page.tables = lambda results: {
        "first": [table_view(NUMBER[["row"]], "Its own table", "Seen first.")]
    }
    monkeypatch.setitem(sys.modules, "someroom.page", page)
    return ["someroom", "someroom.page", [["a part", "target", "inputs"]]]


NUMBER = numbers_table([Number("one", "r", "q", 1.5)], {})


def html(tmp_path, rooms):
    jobs.run(
        build, {"config": {"word": "a <word>"}, "rooms": rooms}, tmp_path / "report",
        results=tmp_path,
    )  # fmt: skip
    return (tmp_path / "report/index.html").read_text()


def test_a_room_speaks_once_some_of_its_results_are_there(tmp_path, room):
    text = html(tmp_path, [room])
    assert "3 things" not in text
    assert "Not made yet: A first section, A second section" in text
    parquet.write(tmp_path / "a/numbers.parquet", NUMBERS, NUMBER, {})
    text = html(tmp_path, [room])
    assert "3 things. Not made yet: A second section" in text
    assert "of a" in text
    assert "a &lt;word&gt;" in text
    assert text.index("Its own table") < text.index("Table one")
    assert "snakemake --cores all target" in text
    assert "snakemake --cores all check" in text


def test_a_room_without_a_page_has_its_sections(tmp_path, room):
    parquet.write(tmp_path / "a/numbers.parquet", NUMBERS, NUMBER, {})
    text = html(tmp_path, [[room[0], "", []]])
    assert "A first section" in text
    assert "Its own table" not in text
