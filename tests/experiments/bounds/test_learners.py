"""Central learners: stable, resumable, kept; a divergence is a row."""

import shutil

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.bounds import learners
from fedscan.io import atomic
from tests.experiments.bounds.made import PATH, contents, train


def test_learners_learn_and_stay_inside(finished):
    rows = pd.read_parquet(finished / "learners" / PATH / "learners.parquet")
    points = pd.read_parquet(finished / "learners" / PATH / "checkpoints.parquet")
    assert len(rows) == 4
    assert rows["certified"].all()
    assert (rows["status"] == "completed").all()
    assert points["update"].tolist() == [0, 10, 20] * 4
    for _, part in points.groupby(["rho", "seed"]):
        assert part["test_nll"].iloc[-1] < part["test_nll"].iloc[0]
    assert np.allclose(points["test_ppl"], np.exp(points["test_nll"]))


def test_a_learner_resumes_to_the_same_bytes(finished, tmp_path, monkeypatch):
    """Die before every one of the 8 checkpoints' and two tables' writes, in turn."""
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    wanted, real = contents(finished / "learners"), atomic.os.replace

    def dying(last):
        left = iter(range(last))

        def replace(*arguments):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return real(*arguments)

        return replace

    for last in range(10):
        shutil.rmtree(tmp_path / "learners", ignore_errors=True)
        monkeypatch.setattr(atomic.os, "replace", dying(last))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path)
        monkeypatch.setattr(atomic.os, "replace", real)
        train(tmp_path)
        assert contents(tmp_path / "learners") == wanted
        assert not list((tmp_path / "checkpoints").rglob("*.safetensors"))


def test_new_seeds_keep_what_exists(copy, monkeypatch):
    trained = []
    real = learners._train

    def spy(settings, data, seed, *rest):
        trained.append((data.rho, seed))
        return real(settings, data, seed, *rest)

    monkeypatch.setattr(learners, "_train", spy)
    train(copy)
    assert trained == []
    train(copy, {"seeds": [0, 1, 2]})
    assert trained == [(0.5, 2), (0.95, 2)]
    train(copy, {"seeds": [0, 1, 2]}, code="other", rerun=False)
    assert len(trained) == 2
    train(copy, {"seeds": [0, 1, 2]}, code="other")
    assert len(trained) == 8
    train(copy, {"lr": 0.1, "seeds": [0]}, code="other")
    assert len(trained) == 10


def test_divergence_is_a_row(copy):
    train(copy, {"lr": 1e38}, folder="diverged")
    rows = pd.read_parquet(copy / "diverged" / PATH / "learners.parquet")
    assert (rows["status"] == "failed").all()
    assert rows["failure"].str.match(r"non-finite loss or gradient in update \d+").all()
    assert (rows["updates"] < 20).all()
