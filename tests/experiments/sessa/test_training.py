"""Training: rows, kept models, kills, what is trained again, failures."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from fedscan.experiments.sessa import training
from fedscan.experiments.sessa.grid import Unit
from fedscan.experiments.sessa.inputs import read_data, sequences
from fedscan.experiments.sessa.model_files import model_file, read_model
from fedscan.experiments.sessa.tables import ACCURACY, CURVES, RUNS
from fedscan.io import parquet
from fedscan.models.sequence_model import SequenceModel
from fedscan.models.sequence_shape import SequenceShape
from fedscan.problems.sequence_task import SequenceTask
from tests import jobs
from tests.experiments.sessa import tiny


def tables(folder):
    return [
        parquet.read_frame(folder / f"{one.name}.parquet", one) for one in (RUNS, CURVES, ACCURACY)
    ]


def test_rows_of_a_mixer(finished):
    runs, curves, accuracy = tables(finished / "sessa/training/task=mqar/mixer=sessa")
    assert runs["lr"].tolist() == [0.003, 0.01]
    assert (runs["status"] == "completed").all()
    assert (runs["steps"] == 6).all()
    assert curves.groupby("lr")["step"].apply(list).tolist() == [[1, 2, 3, 4, 5, 6]] * 2
    measured = curves[curves["validation_loss"].notna()]["step"].tolist()
    assert measured == [3, 6] * 2
    whole = accuracy[accuracy["group"] == "all"]
    assert list(zip(whole["split"], whole["factor"], strict=True)) == [
        ("validation", 1), ("test", 1), ("test", 2),
    ] * 2  # fmt: skip
    for (_, _, _), part in accuracy.groupby(["lr", "split", "factor"]):
        lags = part[part["group"] == "lag"]
        (total,) = part[part["group"] == "all"]["answers"]
        assert lags["answers"].sum() == total
        right = (lags["answers"] * lags["accuracy"]).sum()
        assert right == pytest.approx(total * part[part["group"] == "all"]["accuracy"].iloc[0])
    np.testing.assert_allclose(runs["chance_loss"], np.log(8))


def test_widths_are_runs_of_one_job(finished):
    runs, _, accuracy = tables(finished / "sessa/training/task=recall/mixer=mha")
    assert runs["width"].tolist() == [8, 8, 16, 16]
    assert runs["d_model"].tolist() == [8, 8, 16, 16]
    assert set(accuracy[accuracy["group"] == "pairs"]["value"]) == {"2", "3"}


def test_a_kept_model_scores_as_the_table_says(finished):
    folder = finished / "sessa/training/task=soup/mixer=mha"
    runs, _, accuracy = tables(folder)
    shape = SequenceShape(*tiny.plan.sessa_training(tiny.config(), "soup", "mha")["shapes"]["16"])
    assert shape.d_model == runs["d_model"].iloc[0]
    data = read_data(finished / "sessa/data/task=soup/sessa_examples.parquet", shape)
    params = read_model(folder / runs["model_file"].iloc[0], shape)
    task = SequenceTask(SequenceModel(shape), "float32", "cpu")
    found = task.score(params, sequences(data.parts["test", 1]), data.allowed, 64)
    first = accuracy[(accuracy["split"] == "test") & (accuracy["group"] == "all")].iloc[0]
    assert found.correct.mean() == first["accuracy"]
    assert found.loss.mean() == pytest.approx(first["loss"])
    with pytest.raises(ValueError, match="forward_heads 2, expected 1"):
        read_model(folder / runs["model_file"].iloc[0], shape._replace(forward_heads=1))


def test_a_kill_after_any_write_changes_no_byte(finished, tmp_path, monkeypatch):
    wanted = tiny.bytes_of(finished / "sessa/training/task=mqar/mixer=sessa")
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    folder, kills = jobs.killed_after_every_write(
        monkeypatch, lambda: tiny.training(tmp_path, "mqar", "sessa")
    )
    assert kills >= 3
    assert tiny.bytes_of(folder) == wanted


def steps_run(results, task, mixer, **changes):
    lines = []
    tiny.training(results, task, mixer, lines.append, **changes)
    return [line for line in lines if ": step " in line]


def test_only_what_changed_is_trained_again(copy):
    assert steps_run(copy, "mqar", "sessa") == []
    longer = {"training": {"lrs": [0.003, 0.01, 0.02]}}
    again = steps_run(copy, "mqar", "sessa", **longer)
    assert {line.split(":")[0] for line in again} == {"width=16,seed=0,lr=0.02"}
    runs, _, _ = tables(copy / "sessa/training/task=mqar/mixer=sessa")
    assert runs["lr"].tolist() == [0.003, 0.01, 0.02]
    (copy / "sessa/training/task=mqar/mixer=sessa" / model_file(Unit(16, 0, 0.01))).unlink()
    again = steps_run(copy, "mqar", "sessa", **longer)
    assert {line.split(":")[0] for line in again} == {"width=16,seed=0,lr=0.01"}
    assert steps_run(copy, "mqar", "sessa", **longer) == []
    tiny.data(copy, "mqar", seed=3)
    assert len(steps_run(copy, "mqar", "sessa", **longer)) == 6


def test_all_mixers_see_the_same_batches(finished, tmp_path, monkeypatch):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    seen = {}
    real = SequenceTask.gradient

    def gradient(self, params, batch, scale=1.0):
        seen.setdefault(current, []).append([t.tolist() for t in batch.tokens])
        return real(self, params, batch, scale)

    monkeypatch.setattr(SequenceTask, "gradient", gradient)
    for current in ("sessa", "mha"):
        tiny.training(tmp_path, "mqar", current, training={"lrs": [0.003]})
    assert seen["sessa"] == seen["mha"]
    assert len(seen["sessa"]) == 6


def test_a_run_that_diverges_is_a_failed_row(finished, tmp_path):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    folder = tiny.training(
        tmp_path, "mqar", "sessa", training={"lrs": [0.003, 1e30], "steps": {"mqar": 4}}
    )
    runs, _, accuracy = tables(folder)
    assert runs["status"].tolist() == ["completed", "failed"]
    bad = runs.iloc[1]
    assert "non-finite" in bad["failure"]
    assert bad["failed_step"] >= 1
    assert np.isnan(bad["validation_loss"])
    assert pd.isna(bad["model_file"])
    assert set(accuracy["lr"]) == {0.003}
    # It is kept, not tried again.
    assert steps_run(tmp_path, "mqar", "sessa",
                     training={"lrs": [0.003, 1e30], "steps": {"mqar": 4}}) == []  # fmt: skip


def test_the_first_step_below_chance():
    losses = [2.0] * 30 + [0.5] * 30
    # Mean of the last twenty falls below 1.5 with the seventh of the low ones.
    assert training._first_below(losses, 1.5) == 37
    assert training._first_below(losses, 0.4) is None
    assert training._first_below(losses[:10], 5.0) is None


def test_torchs_threads_are_set(finished, tmp_path):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    try:
        tiny.training(tmp_path, "mqar", "mha", training={"lrs": [0.003], "threads": 2})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
