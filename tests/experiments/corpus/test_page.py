"""What the page says of documents of equal text."""

import json

import pytest

from fedscan.experiments.corpus.page import found


@pytest.fixture
def manifest(tmp_path):
    (tmp_path / "tokens").mkdir()
    return tmp_path / "tokens/manifest.json"


@pytest.mark.parametrize(
    ("rule", "across", "words"),
    [
        ("drop", 3, "2 within a domain, 3 across domains; dropped"),
        ("keep", 3, "2 within a domain, 3 across domains; kept: training and validation text"),
    ],
)
def test_copies_are_counted_on_the_page(manifest, tmp_path, rule, across, words):
    counted = {"rule": rule, "within": {"c4": 2, "github": 0}, "across": {"c4": across}}
    manifest.write_text(json.dumps({"duplicates": counted}))
    assert dict(found({}, tmp_path)[0])["copies of documents"].startswith(words)


def test_without_tokens_or_counts_nothing_is_said(manifest, tmp_path):
    assert found({}, tmp_path) == ([], [])
    manifest.write_text("{}")
    assert found({}, tmp_path) == ([], [])
