"""Rank correlations of measured quantities and outcomes, on tables with known answers."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fedscan.analysis.numbers import numbers_table
from fedscan.analysis.style import NAMES
from fedscan.experiments.comparison import quantities as practice
from fedscan.experiments.comparison.practice_figures import figures
from fedscan.experiments.comparison.quantities import EXPECTATION, WORDS


def job(rounds=(1, 2), value="-"):
    one = pd.DataFrame(
        [
            {"value": value, "round": r, "client_drift_mean": r * 1.0, "client_drift_max": r * 2.0,
             "mean_update_norm": 0.5, "server_displacement": 0.25 * r, "update_dispersion": 3.0,
             "cosine_to_mean": 0.9}
            for r in rounds
        ]
    )  # fmt: skip
    clients = pd.DataFrame(
        [
            {"value": value, "round": r, "client": k, "gradient_norm": r + k}
            for r in rounds
            for k in (0, 1)
        ]
    )
    mixers = pd.DataFrame(
        [
            {"value": value, "round": r, "layer": layer,
             **{f"spectral_norm_{b}": 1.0 + layer for b in ("z", "x", "B", "C", "dt")}}
            for r in rounds
            for layer in (0, 1)
        ]
    )  # fmt: skip
    heads = pd.DataFrame(
        [
            {"value": value, "round": r, "layer": layer, "head": 0, "decay_min": 0.1,
             "decay_median": 0.5 + 0.1 * layer, "decay_max": 0.9 + 0.01 * layer * r}
            for r in rounds
            for layer in (0, 1)
        ]
    )  # fmt: skip
    return one, clients, mixers, heads


def test_quantities_are_means_over_rounds():
    row = practice.run_quantities(*job()).iloc[0]
    assert list(row.index) == ["value", *WORDS]
    assert (row["client_drift"], row["client_drift_max"]) == (1.5, 3.0)
    assert row["gradient_norm"] == 2.0
    assert row["rho_hat"] == pytest.approx((0.91 + 0.92) / 2)
    assert row["median_decay"] == pytest.approx(0.55)
    assert row["spectral_norm_B"] == 1.5


def test_a_model_without_mixers_has_no_block_norms():
    rounds, clients, mixers, heads = job()
    row = practice.run_quantities(rounds, clients, mixers.iloc[:0], heads.iloc[:0]).iloc[0]
    assert np.isnan(row["rho_hat"])
    assert np.isnan(row["spectral_norm_z"])
    assert row["client_drift"] == 1.5


def runs(order):
    """Last-10 perplexity by algorithm; drift rises with it, dispersion falls."""
    rows, numbers = [], []
    for beta, seed in itertools.product((0.0, 1.0), (0, 1)):
        for algorithm, ppl in order.items():
            key = {"backbone": "mamba2", "clients": 4, "setting": "1", "depth": 4,
                   "local_steps": 64, "beta": beta, "algorithm": algorithm, "seed": seed,
                   "value": "-"}  # fmt: skip
            rows.append({**key, "val_ppl_last10": ppl * (1 + seed)})
            values = dict.fromkeys(WORDS, 1.0)
            values |= {"client_drift": ppl**2, "update_dispersion": -ppl}
            numbers.append({**key, **values})
    return pd.DataFrame(rows), pd.DataFrame(numbers)


ORDER = {"fedavg": 50.0, "fedprox": 40.0, "feddyn": 45.0, "fedadam": 60.0}


def by_row(numbers):
    return {(n.row, n.quantity): n for n in numbers}


def test_known_orders_give_known_correlations():
    joined = practice.outcomes(*runs(ORDER), "heterogeneous")
    found = by_row(practice.ordering(practice.rank_correlations(joined)))
    assert found["client drift", "mean_spearman"].value == pytest.approx(1.0)
    assert found["client drift", "concordant_pairs"].value == 1.0
    assert found["update dispersion", "mean_spearman"].value == pytest.approx(-1.0)
    assert found["update dispersion", "concordant_pairs"].value == 0.0
    assert found["client drift", "configurations"].value == 2
    assert found["client drift beta=1", "configurations"].value == 1
    # A quantity that does not vary orders nothing.
    assert ("server displacement", "mean_spearman") not in found
    # FedProx and FedDyn -1, FedAvg 0, FedAdam +1: one tie.
    assert found[EXPECTATION, "mean_spearman"].value == pytest.approx(0.9486832980505138)
    assert found[EXPECTATION, "concordant_pairs"].value == 1.0


def test_an_algorithm_without_an_expectation_leaves_the_others_in_their_order():
    joined = practice.outcomes(*runs(ORDER | {"half_step": 1.0}), "heterogeneous")
    found = by_row(practice.ordering(practice.rank_correlations(joined)))
    assert found[EXPECTATION, "mean_spearman"].value == pytest.approx(0.9486832980505138)
    assert found["update dispersion", "mean_spearman"].value == pytest.approx(-1.0)


def test_intervals_are_t_intervals_over_configurations():
    joined = practice.outcomes(*runs(ORDER), "heterogeneous")
    drift = np.where(joined["beta"] == 1, joined["client_drift"], -joined["client_drift"])
    found = by_row(practice.ordering(practice.rank_correlations(joined.assign(client_drift=drift))))
    number = found["client drift", "mean_spearman"]
    assert number.value == pytest.approx(0.0)
    assert (number.low, number.high) == (-1.0, 1.0)


def test_two_algorithms_are_not_an_order():
    joined = practice.outcomes(*runs({"fedavg": 1.0, "fedprox": 2.0}), "heterogeneous")
    correlations = practice.rank_correlations(joined)
    assert correlations.empty
    assert list(practice.ordering(correlations)) == []


def test_figures_are_drawn_with_names_and_without_anything_to_show():
    joined = practice.outcomes(*runs(ORDER), "heterogeneous")
    numbers = numbers_table(list(practice.ordering(practice.rank_correlations(joined))), {})
    drawn = figures(numbers, joined)
    ordering, movement = drawn["ordering"](), drawn["movement"]()
    labels = [text.get_text() for text in ordering.axes[0].get_yticklabels()]
    assert set(labels) == {"client drift", "update dispersion", EXPECTATION}
    shown = {text.get_text() for text in movement.legends[0].get_texts()}
    others = {NAMES[name] for name in ("fedprox", "feddyn", "fedadam")}
    assert shown == others | {"β = 0", "β = 1"}
    alone = joined[joined["algorithm"] == "fedavg"]
    nothing = numbers_table([], {})
    for draw in figures(nothing, alone).values():
        draw().draw_without_rendering()
