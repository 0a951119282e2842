"""The page as text: escaped, self-contained, and its list of contents matches the code."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedscan.analysis.numbers import Number, numbers_table
from fedscan.config import files as config_files
from fedscan.experiments.bounds import figures as bound_figures
from fedscan.experiments.bounds import page as bounds_page
from fedscan.experiments.comparison import grid, practice_figures
from fedscan.experiments.comparison import page as comparison_page
from fedscan.experiments.comparison.figures import figures as comparison_figures
from fedscan.experiments.comparison.selection import METRICS
from fedscan.experiments.consensus import figures as consensus_figures
from fedscan.experiments.consensus.numbers import Found
from fedscan.experiments.merging import figures as merging_figures
from fedscan.experiments.registry import EXPERIMENTS
from fedscan.experiments.students import figures as student_figures
from fedscan.report.contents import contents
from fedscan.report.numbers_view import numbers_view
from fedscan.report.page import (
    Block,
    Card,
    Page,
    Section,
    cell,
    figure_view,
    number_text,
    render,
    table_view,
)
from fedscan.report.summary import headline

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (200).to_bytes(4, "big") + (100).to_bytes(4, "big")


def page():
    frame = pd.DataFrame({"name": ["<b>", "x"], "value": [2.5, np.nan], "ok": [True, False]})
    section = Section(
        "one", "Title & more", "intro <script>", [Card("3", "label", "note", True)], [("k", "v")],
        [figure_view(PNG, "caption", "results/x.png")], [table_view(frame, "T", "C", ["n1"])],
        [Block("B", "</pre><script>alert(1)</script>")],
    )  # fmt: skip
    return Page("Report", "sub", "1.0", [section])


def test_everything_is_inside_and_nothing_is_loaded():
    html = render(page())
    urls = re.findall(r"""(?:src|href)=["']([^"']*)""", html)
    assert urls
    assert all(url.startswith(("#", "data:")) for url in urls)
    assert "@import" not in html
    assert "url(" not in html
    assert html.count("<script>") == 1


def test_text_is_escaped():
    html = render(page())
    assert "alert(1)</script>" not in html
    assert "&lt;b&gt;" in html
    assert "intro &lt;script&gt;" in html


def test_figures_have_size_and_words():
    html = render(page())
    assert 'width="120" height="60" alt="caption"' in html
    with pytest.raises(ValueError, match=r"x\.png: not a PNG"):
        figure_view(b"GIF89a", "c", "x.png")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-12345.0, "−12,345"),
        (0.31044, "0.3104"),
        (1.2e-5, "1.2e−05"),
        (float("inf"), "∞"),
        (float("nan"), ""),
        (None, ""),
    ],
)
def test_numbers_are_short_and_readable(value, text):
    assert number_text(value) == text


def test_cells_sort_by_their_numbers():
    assert cell(2.5).sort == 2.5
    assert cell("word").sort is None
    assert cell(np.nan) == cell(None)
    assert cell(False).text == "NO"


def test_numbers_only_the_paper_has_are_apart_and_notes_are_numbered_once():
    ours = [
        Number("t", "a", "q", 1.0, 0.5, 1.5, "same"),
        Number("t", "b", "q", 2.0, note="same"),
        Number("t", "c", "q", np.nan),
    ]
    table = numbers_table(ours, {("t", "a", "q"): 1.5, ("t", "z", "q"): 9.0})
    mine, theirs = numbers_view(table, "Title", "Caption")
    assert [column.name for column in mine.columns] == [
        "row", "quantity", "this run", "95% interval", "paper", "difference", "note",
    ]  # fmt: skip
    assert [[c.text for c in row] for row in mine.rows] == [
        ["a", "q", "1", "0.5 … 1.5", "1.5", "−0.5", "1"],
        ["b", "q", "2", "", "", "", "1"],
        ["c", "q", "", "", "", "", ""],
    ]
    assert mine.notes == ["same"]
    assert [[c.text for c in row][:3] for row in theirs.rows] == [["z", "q", "9"]]
    assert "only in the paper" in theirs.title
    assert numbers_view(table[table["table"] == "none"], "T", "C") == []


def test_the_list_of_contents_names_every_figure_of_the_code():
    listed, anchors = {}, []
    for entry in (
        entry for e in EXPERIMENTS for entry in contents(f"fedscan.experiments.{e.name}")
    ):
        anchors.append(entry.anchor)
        listed.setdefault(entry.folder, set()).update(entry.figures)
    roles = {"grid": "a", "client_count": "a", "backbone": "a"}
    frame, text = pd.DataFrame({"study": []}), {"text": "", "tokenizer": ""}
    assert listed["compare"] == set(comparison_figures(frame, frame, roles, text))
    assert listed["practice"] == set(practice_figures.figures(frame, frame))
    assert listed["student_tables"] == set(student_figures.figures(None, None))
    assert listed["merging/tables"] == set(merging_figures.figures(None))
    nothing = Found({}, {}, None, None, None, "uniform")
    assert listed["consensus/tables"] == set(consensus_figures.figures(nothing, []))
    assert listed["bounds"] == set(
        bound_figures.figures(SimpleNamespace(points=None, gradients=None), *[None] * 3)
    )
    assert len(anchors) == len(set(anchors))


def run(status, **values):
    return {
        "algorithm": "fedavg", "value": "-", "setting": "1", "beta": 1.0, "depth": 2,
        "local_steps": 4, "clients": 4, "backbone": "mamba2", "seed": 0, "status": status,
        "failure": None, "failed_round": None, "parameters": 1000, "kernels": "torch",
        "device": "cpu", "precision": "float32", **values,
    }  # fmt: skip


def test_failures_and_missing_runs_come_first(monkeypatch):
    runs = pd.DataFrame(
        [run("completed"), run("failed", failure="non-finite loss", failed_round=3)]
    )
    monkeypatch.setattr(comparison_page, "_runs", lambda _: runs)
    config = config_files.load(["config/config.yaml"]).model_dump(mode="json")
    facts, (table,) = comparison_page.found(config, Path("results"))
    missing = len(grid.runs(config["studies"])) - 2
    assert ("training runs", f"2 there, 1 failed, {missing} missing") in facts
    assert "non-finite loss" in [c.text for c in table.rows[0]]
    card = next(comparison_page.cards({}, Path("results")))
    assert (card.value, card.alarm) == ("1 + 1", True)


def test_violations_are_marked():
    for violations, alarm in ((0, False), (2, True)):
        numbers = numbers_table(
            [
                Number("table1", "check", "evaluations", 100),
                Number("table1", "check", "violations", violations),
            ],
            {},
        )
        checks = pd.DataFrame({"check": ["a"], "passed": [not alarm]})
        found = list(bounds_page.cards({"bounds": numbers}, Path("results")))
        cards = headline(found, checks).cards
        assert [card.alarm for card in cards] == [alarm, alarm]
        assert cards[0].value == f"{violations} of 100"


@pytest.mark.parametrize(
    ("strengths", "value", "label"),
    [
        ({"drift": 0.5, "norm": 0.4}, "drift", "orders the algorithms best"),
        ({"drift": 0.5, "norm": 0.5}, "drift and norm", "order the algorithms best"),
        ({"a": 0.5, "b": 0.5, "c": 0.5}, "a and 2 more", "order the algorithms best"),
        ({"a": float("nan"), "b": float("nan")}, "a", "orders the algorithms best"),
    ],
)
def test_a_tie_for_the_best_quantity_is_shown(strengths, value, label):
    rows = [
        Number("practice", name + ending, quantity, strength)
        for name, strength in strengths.items()
        for ending in ("", " beta=0")
        for quantity in ("mean_spearman", "concordant_pairs")
    ]
    (card,) = comparison_page._practice_cards(numbers_table(rows, {}))
    assert (card.value, card.label) == (value, label)


def test_the_comparison_shows_axes_that_vary():
    row = {
        "study": "main", "backbone": "mamba2", "clients": 4, "setting": "1", "depth": 2,
        "local_steps": 4, "beta": 1.0, "algorithm": "fedavg", "value": "-", "failed_runs": 0,
        "missing_runs": 1, "change_percent": 0.0,
        **{f"{m}_{s}": 1.0 for m in METRICS for s in ("mean", "std")},
    }  # fmt: skip
    frame = comparison_page.comparison_frame(pd.DataFrame([row, row | {"setting": "2"}]))
    assert list(frame)[:4] == ["setting", "beta", "algorithm", "last-10 ppl"]
    assert list(frame)[-1] == "value"
    assert set(frame["algorithm"]) == {"FedAvg"}
    assert "missing runs" in frame
    assert "failed runs" not in frame
