"""What theory measures, joined with what came of it."""

import numpy as np
import pandas as pd
import pytest

from tests.experiments.comparison import made


def test_quantities_are_means_of_what_the_jobs_recorded(compared):
    table = pd.read_parquet(compared / "practice/quantities.parquet").set_index("algorithm")
    assert sorted(table.index) == sorted(made.ALGORITHMS)
    job = next((compared / "federated").rglob("algorithm=fedadam/seed=0"))
    rounds = pd.read_parquet(job / "rounds.parquet", partitioning=None)
    row = table.loc["fedadam"]
    assert row["client_drift"] == pytest.approx(rounds["client_drift_mean"].mean(), rel=1e-12)
    heads = pd.read_parquet(job / "heads.parquet", partitioning=None)
    slowest = heads.groupby("round")["decay_max"].max().mean()
    assert row["rho_hat"] == pytest.approx(slowest, rel=1e-12)


def test_the_order_is_told_with_its_configurations(compared):
    numbers = pd.read_parquet(compared / "practice/numbers.parquet")
    strengths = numbers[numbers["quantity"] == "mean_spearman"]
    assert len(strengths)
    assert strengths["value"].abs().max() <= 1
    assert (numbers[numbers["quantity"] == "configurations"]["value"] == 1).all()
    # One configuration has no interval.
    assert np.isnan(strengths["low"].astype(float)).all()
    for name in ("ordering", "movement"):
        assert (compared / f"practice/{name}.svg").read_text().startswith("<?xml")


def test_a_table_that_is_missing_beside_the_others_is_an_error(copy):
    next((copy / "federated").rglob("algorithm=fedprox/seed=0/mixers.parquet")).unlink()
    with pytest.raises(ValueError, match=r"mixers\.parquet: no such file"):
        made.practise(copy)
