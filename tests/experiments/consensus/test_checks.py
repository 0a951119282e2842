"""Checks of consensus pass on what is whole, and find what is not."""

import shutil
from pathlib import Path

import pytest

from fedscan.experiments.consensus.checks import checks
from fedscan.experiments.consensus.run_tables import RUNS
from fedscan.experiments.consensus.tables import CURVES
from fedscan.io import parquet
from tests.experiments.consensus import made

CODE = made.CODE["code"]


def outcomes(results, **changes):
    settings = {
        "models": ["tiny"], "variants": made.VARIANTS, "draws": 3, "depth": 12, "tokens": 6,
        "random": made.RANDOM, "theory": made.THEORY, "study": "main", "runs": 6,
        "rounds": ["last"], "run_variants": ["gate", "no_gate"], "merging": True,
        "codes": dict.fromkeys(("models", "runs", "merging", "theory"), CODE),
        "rerun_on_code_change": True,
    } | changes  # fmt: skip
    found = {}
    for check in checks(settings, results):
        found[check.check, check.subject] = check.passed
    return found


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "results"))


def failed(found):
    return {name for (name, _), passed in found.items() if not passed}


def test_everything_passes_on_whole_results(whole):
    found = outcomes(whole)
    assert len(found) == 6 + 3 + 2 + 4
    assert not failed(found)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"draws": 4}, "every variant, draw and depth"),
        ({"depth": 11}, "every variant, draw and depth"),
        ({"tokens": 5}, "every token's windows"),
        ({"runs": 7}, "every kept model of the study"),
        ({"run_variants": ["gate"]}, "every kept model of the study"),
        ({"theory": made.THEORY | {"instances": 2}}, "every random instance"),
    ],
    ids=str,
)
def test_what_is_missing_is_found(whole, change, name):
    assert name in failed(outcomes(whole, **change))


def test_results_of_other_code_are_found(whole):
    codes = dict.fromkeys(("models", "runs", "merging", "theory"), "other")
    assert failed(outcomes(whole, codes=codes)) == {"consensus results of the present code"}
    assert not failed(outcomes(whole, codes=codes, rerun_on_code_change=False))


def changed_curves(results, **columns):
    path = results / "consensus/models/model=tiny/consensus_curves.parquet"
    rows = parquet.read_frame(path, CURVES)
    for name, change in columns.items():
        rows[name] = change(rows)
    parquet.write(path, CURVES, rows, {})


@pytest.mark.parametrize(
    "columns",
    [
        {"lambda1": lambda rows: rows["lambda1"] * 1.5},
        {"participation": lambda rows: rows["participation"] * 0.5},
        {"participation": lambda rows: rows["participation"] * 50},
    ],
)
def test_measures_that_contradict_each_other_are_found(copy, columns):
    changed_curves(copy, **columns)
    assert "lambda1 and participation agree" in failed(outcomes(copy))


def test_other_initial_tokens_are_found(copy):
    def moved(rows):
        first = (rows["depth"] == 0) & (rows["variant"] == "no_gate")
        return rows["mean_cosine"].where(~first, rows["mean_cosine"] + 1e-3)

    changed_curves(copy, mean_cosine=moved)
    assert failed(outcomes(copy)) == {"all variants start from the same tokens"}


def test_a_failed_draw_without_a_reason_is_found(copy):
    changed_curves(copy, status=lambda rows: rows["status"].where(rows["draw"] > 0, "failed"))
    assert failed(outcomes(copy)) == {"failed draws say why"}


def test_means_over_draws_are_checked_too(copy):
    path = copy / "consensus/runs/study=main/consensus_runs.parquet"
    rows = parquet.read_frame(path, RUNS)
    parquet.write(path, RUNS, rows.assign(participation=0.5), {})
    assert failed(outcomes(copy)) == {"lambda1 and participation agree"}


def test_what_is_switched_off_is_not_looked_for(whole, tmp_path):
    for part in ("models", "theory"):
        shutil.copytree(whole / "consensus" / part, tmp_path / "consensus" / part)
    assert not failed(outcomes(tmp_path, study=None, merging=False))
