"""Agreement, correlation, paired changes and factor tables with known answers."""

import numpy as np
import pandas as pd
import pytest

from fedscan.analysis.style import NAMES
from fedscan.experiments.comparison import numbers as comparison_numbers
from fedscan.experiments.comparison.expectations import (
    EXPECTED,
    agreement,
    correlation,
    expectation,
)
from fedscan.experiments.comparison.numbers import (
    BACKBONE,
    CLIENT_COUNT,
    FACTORS,
    changes,
    paper_numbers,
)
from fedscan.experiments.comparison.selection import CONFIGURATION, compare
from fedscan.experiments.comparison.summary import PUBLISHED
from fedscan.pipeline.paper import published as read_published

BETWEEN = "heterogeneous"


def published():
    return read_published(PUBLISHED, ["table2", *FACTORS, *CLIENT_COUNT, *BACKBONE])


def test_the_papers_own_changes_agree_in_13_of_16_cases():
    table = published()["table2"].dropna(subset=["expected"])
    names = {shown: name for name, shown in NAMES.items()}
    rows = pd.DataFrame(
        {
            "algorithm": table["algorithm"].map(names),
            "beta": table["beta"].astype(float),
            "change_percent": table["delta_percent"],
        }
    )
    assert agreement(rows, BETWEEN, 2.0) == (13, 16)
    expected = [
        expectation(a, b, BETWEEN) for a, b in zip(rows["algorithm"], rows["beta"], strict=True)
    ]
    assert expected == table["expected"].astype(int).tolist()


def test_in_between_the_chosen_column_counts():
    assert expectation("scaffold", 0.0, "heterogeneous") == 1
    assert expectation("scaffold", 0.7, "heterogeneous") == -1
    assert expectation("scaffold", 0.7, "homogeneous") == 1
    assert expectation("scaffold", 1.0, "homogeneous") == -1
    assert expectation("fedexp", 0.7, "heterogeneous") == 1


def test_the_margin_of_similar_changes_decides_cases():
    rows = pd.DataFrame({"algorithm": ["fedalign"], "beta": [0.0], "change_percent": [-1.5]})
    assert agreement(rows, BETWEEN, 2.0) == (1, 1)
    assert agreement(rows, BETWEEN, 1.0) == (0, 1)


def test_an_algorithm_without_an_expectation_is_compared_and_judged_by_none(monkeypatch):
    monkeypatch.setitem(NAMES, "half_step", "Half step")
    assert np.isnan(expectation("half_step", 0.0, BETWEEN))
    rows = pd.DataFrame(
        {"algorithm": ["fedexp", "half_step"], "beta": [0.0, 0.0], "change_percent": [0.5, 9.0]}
    )
    assert agreement(rows, BETWEEN, 2.0) == (1, 1)
    runs = made_up()
    stranger = runs[runs["algorithm"] == "fedexp"].assign(algorithm="half_step")
    both = pd.concat([runs, stranger], ignore_index=True)
    paired = changes(both, compare(both))
    known = paired[paired["algorithm"] != "half_step"]
    np.testing.assert_equal(
        correlation(paired, CONFIGURATION, BETWEEN),
        correlation(known, CONFIGURATION, BETWEEN),
    )
    rows = [number.row for number in comparison_numbers.paired_tests(paired)]
    assert "Half step" in rows


def made_up(noise=0.0):
    """Perplexities whose log change against FedAvg is 0.1 times the expectation."""
    rng, rows = np.random.default_rng(0), []
    for depth in (2, 4):
        for steps in (16, 32, 64):
            for beta in (0.0, 1.0):
                for seed in (0, 1):
                    base = 50.0 + 10 * seed + depth
                    for algorithm in ("fedavg", *EXPECTED):
                        sign = 0 if algorithm == "fedavg" else expectation(algorithm, beta, BETWEEN)
                        value = base * np.exp(0.1 * sign + noise * rng.normal())
                        rows.append({
                            "backbone": "mamba2", "clients": 4, "setting": "1", "depth": depth,
                            "local_steps": steps, "beta": beta, "algorithm": algorithm,
                            "seed": seed, "value": "-", "status": "completed",
                            "train_ppl": value, "val_ppl": value, "val_ppl_last10": value,
                            "data_source": "synthetic", "tokenizer": "bytes",
                        })  # fmt: skip
    return pd.DataFrame(rows)


def test_a_perfect_expectation_correlates_perfectly():
    runs = made_up()
    paired = changes(runs, compare(runs))
    assert len(paired) == 2 * 3 * 2 * 2 * 8
    found = correlation(paired, CONFIGURATION, BETWEEN)
    assert found.pearson.value == pytest.approx(1.0)
    assert found.pearson.low == pytest.approx(1.0)
    assert found.spearman == pytest.approx(1.0)
    few = correlation(paired[paired["depth"] == 2], CONFIGURATION, BETWEEN)
    assert np.isnan(few.pearson.low)  # six configurations


def test_the_interval_resamples_configurations():
    runs = made_up(noise=0.1)
    paired = changes(runs, compare(runs))
    found = correlation(paired, CONFIGURATION, BETWEEN).pearson
    assert 0 < found.low < found.value < found.high < 1
    cases = zip(paired["algorithm"], paired["beta"], strict=True)
    r = np.corrcoef([expectation(*case, BETWEEN) for case in cases], paired["log_change"])
    assert found.value == pytest.approx(r[0, 1])


def test_no_variation_has_no_correlation():
    runs = made_up()
    paired = changes(runs, compare(runs))
    one = correlation(paired[paired["algorithm"] == "fedalign"], CONFIGURATION, BETWEEN)
    assert np.isnan(one.pearson.value)


def by_row(numbers):
    return {(n.table, n.row, n.quantity): n for n in numbers}


def test_numbers_and_the_papers_keys_meet():
    runs = made_up()
    comparison = compare(runs)
    paired = changes(runs, comparison)
    found = by_row([
        *comparison_numbers.table2(comparison, BETWEEN, 2.0),
        *comparison_numbers.correlations(paired, BETWEEN),
        *comparison_numbers.paired_tests(paired),
        *comparison_numbers.factor_tables(runs, comparison, FACTORS),
    ])  # fmt: skip
    assert found["table2", "FedProx beta=1", "change_percent"].value == pytest.approx(
        100 * (np.exp(-0.1) - 1)
    )
    assert found["table2", "agreement", "cases"].value == 16
    assert found["paired", "FedDyn", "mean_log_change"].value == pytest.approx(-0.1)
    fedavg = found["table23", "FedAvg beta=0", "val_ppl"]
    assert fedavg.value == pytest.approx(np.mean([50 + 10 * s + d for s in (0, 1) for d in (2, 4)]))
    assert found["table23", "FedAvg beta=0", "val_ppl_std"].value == pytest.approx(
        np.std([53, 63], ddof=1)
    )
    paper = paper_numbers(published())
    assert paper["table23", "FedAvg beta=0", "val_ppl"] == 63.7
    assert set(paper) >= {k for k in found if k[0] == "table2"}
    assert {k for k in found if k[0] == "table23"} <= set(paper)
    assert ("correlation", "beta=1", "pearson_r") in found


def test_fedavg_alone_compares_with_nothing():
    runs = made_up()
    runs = runs[runs["algorithm"] == "fedavg"]
    comparison = compare(runs)
    paired = changes(runs, comparison)
    assert paired.empty
    assert list(comparison_numbers.paired_tests(paired)) == []
    found = by_row(comparison_numbers.correlations(paired, BETWEEN))
    assert np.isnan(found["correlation", "all", "pearson_r"].value)
    table = by_row(comparison_numbers.table2(comparison, BETWEEN, 2.0))
    assert table["table2", "agreement", "compared"].value == 0


def test_failed_runs_are_left_out_of_pairs():
    runs = made_up()
    runs.loc[runs["algorithm"] == "feddyn", "status"] = "failed"
    comparison = compare(runs)
    paired = changes(runs, comparison)
    assert "feddyn" not in set(paired["algorithm"])
    assert not any(n.row == "FedDyn" for n in comparison_numbers.paired_tests(paired))


def test_ablations_have_the_papers_rows():
    runs = made_up()
    comparison = compare(runs)
    found = by_row([
        *comparison_numbers.factor_tables(runs, comparison, CLIENT_COUNT),
        *comparison_numbers.factor_tables(runs, comparison, BACKBONE),
    ])  # fmt: skip
    paper = paper_numbers(published())
    assert set(found) == {k for k in found if k in paper or k[2].startswith("train_ppl")}
    assert paper["table27", "FedAvg clients=4", "val_ppl_last10"] == 64.2
    assert paper["table28", "FedAvg backbone=hybrid75", "val_ppl"] == 41.5
    assert len({k for k in paper if k[0] == "table27" and k[2] == "val_ppl"}) == 4 * 9
    assert len({k for k in paper if k[0] == "table28" and k[2] == "val_ppl"}) == 6 * 9
