"""All runs in one table, the paper's numbers beside, and what is missing or made otherwise."""

import shutil

import pandas as pd
import pytest

from tests.experiments.comparison import made


def test_every_run_is_compared_with_fedavg(compared):
    table = pd.read_parquet(compared / "compare/comparison.parquet")
    assert sorted(table["algorithm"]) == sorted(made.ALGORITHMS)
    change = table.set_index("algorithm")["change_percent"]
    last = table.set_index("algorithm")["val_ppl_last10_mean"]
    assert change["fedavg"] == 0
    wanted = 100 * (last["fedprox"] / last["fedavg"] - 1)
    assert change["fedprox"] == pytest.approx(wanted, rel=1e-12)
    rounds = pd.read_parquet(compared / "compare/all_rounds.parquet")
    assert rounds.groupby("algorithm").size().to_dict() == dict.fromkeys(made.ALGORITHMS, 4)


def test_the_papers_numbers_stand_beside_with_what_differs(compared):
    numbers = pd.read_parquet(compared / "compare/numbers.parquet")
    found = numbers.set_index(["table", "row", "quantity"])
    paired = numbers[numbers["table"] == "paired"]["row"].tolist()
    assert paired == ["FedProx", "FedAdam"]
    only_paper = found.loc[("table2", "FedProx beta=1", "change_percent")]
    assert only_paper["paper"] == -34.4
    both = numbers[numbers["value"].notna() & numbers["paper"].notna()]
    assert both["note"].str.contains("text synthetic").any()
    for name in ("validation_curves", "change_heat_map", "tuned_values"):
        assert (compared / f"compare/{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_a_job_that_is_not_there_is_counted_and_a_lost_table_is_an_error(copy):
    job = next((copy / "federated").rglob("algorithm=fedprox/seed=0"))
    (job / "rounds.parquet").unlink()
    with pytest.raises(ValueError, match=r"rounds\.parquet: no such file"):
        made.compare(copy)
    shutil.rmtree(job)
    made.compare(copy)
    table = pd.read_parquet(copy / "compare/comparison.parquet").set_index("algorithm")
    assert table.loc["fedprox", "missing_runs"] == 1
    assert table.loc["fedavg", "missing_runs"] == 0


def test_without_any_job_there_is_nothing_to_compare(copy):
    shutil.rmtree(copy / "federated")
    with pytest.raises(ValueError, match="no job of this configuration has ended yet"):
        made.compare(copy)


def test_the_same_bytes_every_time(copy, compared):
    shutil.rmtree(copy / "compare")
    made.compare(copy)
    for file in (compared / "compare").iterdir():
        assert (copy / "compare" / file.name).read_bytes() == file.read_bytes(), file.name
