"""What the page says of documents of equal text."""

import json

import pytest

from fedscan.stages.html_report import _duplicates


@pytest.mark.parametrize(
    ("rule", "across", "words"),
    [
        ("drop", 3, "2 within a domain, 3 across domains; dropped"),
        ("keep", 3, "2 within a domain, 3 across domains; kept: training and validation text"),
    ],
)
def test_copies_are_counted_on_the_page(tmp_path, rule, across, words):
    counted = {"rule": rule, "within": {"c4": 2, "github": 0}, "across": {"c4": across}}
    (tmp_path / "manifest.json").write_text(json.dumps({"duplicates": counted}))
    assert _duplicates(tmp_path / "manifest.json")["copies of documents"].startswith(words)


def test_without_tokens_or_counts_nothing_is_said(tmp_path):
    assert _duplicates(tmp_path / "absent.json") == {}
    (tmp_path / "manifest.json").write_text("{}")
    assert _duplicates(tmp_path / "manifest.json") == {}
