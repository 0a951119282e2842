"""Kept models are read back as they were, and what is not there is named."""

import shutil

import pytest
import torch

from fedscan.experiments.comparison import models
from fedscan.io import checkpoints
from fedscan.models.initialise import initialise
from fedscan.models.pretrained import empty_model
from tests.experiments import tiny


@pytest.fixture(scope="module")
def trained(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("federated")
    job = tiny.settings("fedprox", [{"mu": 0.0}, {"mu": 0.5}])
    tiny.train(job | {"keep_final_model": True, "keep_model_rounds": [1]}, prepared, folder)
    return folder


def test_the_best_run_is_read_back(trained):
    rows = models.rows(trained / "job")
    found = models.best(trained, ["job"])
    assert found.val_ppl_last10 == min(row["val_ppl_last10"] for row in rows.values())
    kept = models.read(found.file)
    arrays, _ = checkpoints.load(trained / f"job/models/{found.value}.safetensors")
    for name, value in kept.params.items():
        assert torch.equal(value, torch.from_numpy(arrays[name]))
    assert kept.round_index == 4
    assert kept.shape.attention_layers == ()
    model = empty_model(kept.shape)
    assert set(kept.params) == {name for name, _ in model.named_parameters()}
    assert initialise(kept.shape, 0).shape == kept.shape


def test_a_kept_round(trained):
    file = models.file(trained / "job", "mu=0.5", 1)
    assert models.read(file).round_index == 1


@pytest.mark.parametrize(("round_index", "key"), [(None, "final_model"), (3, "model_rounds")])
def test_a_model_that_is_not_kept_is_named_with_its_key(trained, round_index, key):
    with pytest.raises(ValueError, match=f"no such model; set workflow.keep_{key} and delete"):
        models.file(trained / "job", "mu=0.7", round_index)


@pytest.mark.parametrize("round_index", [None, 1])
def test_a_model_of_another_training_is_refused(trained, tmp_path, round_index):
    """The table is of one configuration, the model of another."""
    shutil.copytree(trained / "job", tmp_path / "job")
    file = models.file(tmp_path / "job", "mu=0.5", round_index)
    arrays, facts = checkpoints.load(file)
    checkpoints.save(file, arrays, facts | {"config_hash": "0" * 16})
    with pytest.raises(ValueError, match=r"not the model of the run in .*runs.parquet; set work"):
        models.file(tmp_path / "job", "mu=0.5", round_index)
    checkpoints.save(file, arrays, facts)
    assert models.file(tmp_path / "job", "mu=0.5", round_index) == file


def test_a_damaged_model_is_named(trained, tmp_path):
    file = tmp_path / "x.safetensors"
    data = bytearray(models.file(trained / "job", "mu=0.5", 1).read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="x.safetensors: damaged checkpoint"):
        models.read(file)
    arrays, facts = checkpoints.load(models.file(trained / "job", "mu=0.5", 1))
    arrays.pop("backbone.layers.0.mixer.A_log")
    checkpoints.save(file, arrays, facts)
    with pytest.raises(ValueError, match=r"x.safetensors.*A_log"):
        models.read(file)


def test_other_files_are_refused(trained, tmp_path):
    checkpoints.save(tmp_path / "x.safetensors", {}, {"round": 3})
    with pytest.raises(ValueError, match="x.safetensors: no model of a training run"):
        models.read(tmp_path / "x.safetensors")


def test_no_completed_run(tmp_path, prepared):
    tiny.train(tiny.settings(lr=1e30), prepared, tmp_path)
    with pytest.raises(ValueError, match="no completed run"):
        models.best(tmp_path, ["job"])
