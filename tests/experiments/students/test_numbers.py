"""Scaling exponents and counts of federated learners from made-up runs with known answers."""

import io
import itertools

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.students import numbers as student_numbers
from fedscan.experiments.students.figures import figures
from fedscan.experiments.students.numbers import Students, core, is_base, tails


def made_up():
    """Drift ~ E^0.9, disagreement ~ K^1.5 (1-rho)^-1.2, dominant 100 times iid."""
    settings = [(4, 16, "iid"), (2, 16, "iid"), (8, 16, "iid"), (4, 1, "iid"), (4, 64, "iid"),
                (4, 16, "dominant")]  # fmt: skip
    runs, rounds = [], []
    methods = [("fedavg", "-"), ("fedprox", "mu=0.1"), ("fedprox", "mu=1")]
    grid = itertools.product([(8, 8, 0.5), (8, 8, 0.9), (4, 8, 0.9)], settings, methods)
    for (d, n, rho), (clients, steps, partition), (algorithm, value) in grid:
        names = ("clients", "local_steps", "partition", "algorithm", "value", "seed")
        key = {"d_input": d, "d_state": n, "rho": rho}
        key |= zip(names, (clients, steps, partition, algorithm, value, 0), strict=True)
        disagreement = clients**1.5 * (1 - rho) ** -1.2 * (100 if partition == "dominant" else 1)
        runs.append(key | {
            "status": "completed", "radius": 0.05 * steps, "checks": 7, "violations": 0,
            "contained": True, "theorem_applies": False, "test_nll": 1.0, "left_side": 1.0,
            "right_side": 4.0, "step_condition": 9.0, "drift_condition": 9.0,
            "tv_sequence": (1 - 1 / clients) ** 2, "tv_bigram": 1e-4, "tv_unigram": 1e-5,
        })  # fmt: skip
        for index in range(5):
            late = index >= 2
            rounds.append(key | {
                "round": index, "gradient_squared": (1 - rho) ** -0.3 if late else 99.0,
                "client_drift_mean": (steps**0.9 if late else 99.0) if index < 4 else None,
                "displacement_max": 1.0 if index < 4 else None,
                "disagreement": (disagreement if late else 99.0) if index % 2 == 0 else None,
                "G": 1.0 if index % 2 == 0 else None, "disagreement_bound": disagreement * 1e9,
                "disagreement_bound_tight": disagreement * 1e6, "token_level": disagreement * 10,
            })  # fmt: skip
    frame = pd.DataFrame(rounds)
    numbers = [c for c in frame.columns if c not in ("partition", "algorithm", "value")]
    return Students(pd.DataFrame(runs), frame.astype(dict.fromkeys(numbers[5:], float)))


def by_row(numbers):
    return {(n.row, n.quantity): n for n in numbers}


def test_the_base_and_its_variations():
    runs = made_up().runs
    assert is_base(runs).sum() == 3 * 2
    assert set(runs[is_base(runs, "clients")]["clients"]) == {2, 4, 8}
    assert "mu=1" not in set(runs[is_base(runs)]["value"])
    one = runs[is_base(runs, "clients")].query("not (rho == 0.5 and clients != 4)")
    assert set(core(one, "clients")["rho"]) == {0.9}


def test_exponents_are_recovered_from_the_second_half():
    found = by_row(student_numbers.scaling(tails(made_up())))
    for row, wanted in (
        ("client drift in E", 0.9),
        ("reference radius in E", 1.0),
        ("disagreement in K", 1.5),
        ("disagreement in 1-rho", -1.2),
        ("client drift in 1-rho", 0.0),
        ("squared gradient in 1-rho", -0.3),
    ):
        estimate = found[row, "exponent"]
        assert estimate.value == pytest.approx(wanted, abs=1e-9), row
        assert found[row, "theil_sen_exponent"].value == pytest.approx(wanted, abs=1e-9)


def test_total_variation_and_partition_ratio():
    data = made_up()
    found = by_row(student_numbers.total_variation(data, tails(data)))
    assert found["K=4 dominant sequence", "squared_tv"].value == 0.5625
    assert found["dominant / iid", "disagreement_ratio"].value == pytest.approx(100)
    # The tail of the dominant runs has the same K: the ratio is the partition's alone.
    assert "uncertified" not in found["K=4 iid sequence", "squared_tv"].note
    assert "only the sequence level" in found["K=4 iid bigram", "squared_tv"].note


def test_counts():
    found = by_row(student_numbers.checks(made_up()))
    runs = 3 * 6 * 3
    assert found["all", "runs"].value == runs
    assert found["all", "gradient_and_displacement_checks"].value == runs * (2 * 3 + 4)
    assert found["all", "heterogeneity_checks"].value == runs * 6
    assert found["fedavg", "runs"].value == runs / 3
    assert found["all", "theorem_applies"].value == 0


def test_shares_of_the_bound():
    found = by_row(student_numbers.token_level(made_up()))
    name = "4 G_tight^2 H_TV over sequences"
    assert found[name, "median_share_used"].value == pytest.approx(1e-6)
    assert found["4 G_tight^2 H_TV over bigrams", "median_share_used"].value == pytest.approx(0.1)


def test_failed_runs_have_no_tail_but_are_counted():
    data = made_up()
    data.runs.loc[0, "status"] = "failed"
    assert len(tails(data)) == len(data.runs) - 1
    assert by_row(student_numbers.checks(data))["all", "failed_runs"].value == 1


def test_figures_are_drawn_also_without_variations():
    data = made_up()
    for draw in figures(data, tails(data)).values():
        draw().savefig(io.BytesIO())
    base = Students(data.runs[is_base(data.runs)], data.rounds[is_base(data.rounds)])
    for draw in figures(base, tails(base)).values():
        draw().savefig(io.BytesIO())
    none = Students(data.runs.iloc[:0], data.rounds.iloc[:0])
    for draw in figures(none, tails(none)).values():
        draw().savefig(io.BytesIO())
    other = Students(
        data.runs.assign(local_steps=data.runs["local_steps"] * 2),
        data.rounds.assign(local_steps=data.rounds["local_steps"] * 2),
    )
    assert is_base(other.runs).sum() == is_base(data.runs).sum()
    numbers = by_row(student_numbers.scaling(tails(base)))
    assert np.isnan(numbers["disagreement in K", "exponent"].value)
