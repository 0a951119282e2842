"""The numbers of a run, from its rounds."""

import math

import pytest

from fedscan.experiments.comparison.rows import Record
from fedscan.federated.local_phase import Diverged


def record(rounds):
    """Validation perplexity 2, 4, 8, … so that every choice of rounds has a mean of its own."""
    return Record(rounds=[{"val_ppl": 2.0**r, "train_ppl": 3.0**r} for r in range(1, rounds + 1)])


@pytest.mark.parametrize(
    ("rounds", "averaged"),
    [(1, [1]), (9, range(1, 10)), (10, range(1, 11)), (11, range(2, 12)), (12, range(3, 13))],
)
def test_the_headline_metric_is_the_mean_of_the_last_ten_rounds(rounds, averaged):
    (run,) = record(rounds).rows("-", {}, {}).runs
    assert run["val_ppl_last10"] == sum(2.0**r for r in averaged) / len(averaged)
    assert run["val_ppl"] == sum(2.0**r for r in range(1, rounds + 1)) / rounds
    assert run["train_ppl"] == sum(3.0**r for r in range(1, rounds + 1)) / rounds
    assert run["rounds"] == rounds


def test_a_failed_run_has_no_metric():
    failed = record(12)
    failed.fail(Diverged("loss overflow", 12, 0))
    (run,) = failed.rows("-", {}, {}).runs
    assert all(math.isnan(run[name]) for name in ("train_ppl", "val_ppl", "val_ppl_last10"))
    assert run["rounds"] == 12
