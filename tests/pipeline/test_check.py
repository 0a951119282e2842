"""The stage ``check`` asks the experiments' modules, and refuses what they refuse."""

import sys
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from fedscan.pipeline import check
from fedscan.pipeline.checks import Check, present_code
from tests import jobs


@pytest.fixture
def module(monkeypatch):
    """A module of checks with any outcomes."""

    def make(name, *outcomes):
        made = ModuleType(name)
        made.checks = lambda settings, results: [
            Check(f"{name} {settings['what']}", str(results.name), passed, "d")
            for passed in outcomes
        ]
        monkeypatch.setitem(sys.modules, name, made)
        return [name, {"what": "whole"}]

    return make


def test_all_experiments_are_asked_in_order_with_their_own_settings(tmp_path, module):
    asked = [module("one", True, True), module("two", True)]
    lines = []
    folder = tmp_path / "check"
    jobs.run(check, {"experiments": asked}, folder, results=tmp_path, report=lines.append)
    rows = pq.read_table(folder / "checks.parquet").to_pylist()
    assert [row["check"] for row in rows] == ["one whole", "one whole", "two whole"]
    assert lines[0] == f"ok   one whole: {tmp_path.name}: d"


def test_a_failed_check_is_named_and_its_table_kept_apart(tmp_path, module):
    asked = [module("one", True), module("two", False)]
    with pytest.raises(ValueError, match=r"1 of 2 checks failed; first: two whole"):
        jobs.run(check, {"experiments": asked}, tmp_path, results=tmp_path)
    assert not (tmp_path / "checks.parquet").exists()
    rows = pq.read_table(tmp_path / "checks.failed.parquet").to_pylist()
    assert [row["passed"] for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("old", "counts", "passed"), [(0, True, True), (2, True, False), (2, False, True)]
)
def test_rows_of_other_code_are_refused_only_if_code_counts(old, counts, passed):
    assert present_code("s", old, "d", counts).passed is passed
