"""Which runs are to be trained: those without rows, or without a model that is to be kept."""

import shutil

import pytest

from fedscan.experiments.comparison import cost, grid
from tests import jobs
from tests.experiments import tiny

KEPT = [0, 2]


@pytest.fixture
def trained(prepared, tmp_path, monkeypatch):
    """One job of two values, and the configuration that has it."""
    settings = tiny.settings("fedprox", [{"mu": 0.0}, {"mu": 0.5}]) | {"keep_model_rounds": KEPT}
    job = grid.Job(**settings["job"])
    runs = [grid.Run(job, f"mu={mu:g}", (("mu", mu),), ("main",)) for mu in (0.0, 0.5)]
    monkeypatch.setattr(grid, "runs", lambda _studies: runs)
    folder = tmp_path / "federated" / grid.job_path(job)
    jobs.run(tiny.federated, settings, folder, scratch=tmp_path / "scratch", partition=prepared)
    return {"studies": {}, "training": tiny.TRAINING, "model": tiny.MODEL}, folder


def missing(config, folder, rounds):
    results = next(p.parent for p in folder.parents if p.name == "federated")
    runs = cost.missing_runs({**config, "workflow": {"keep_model_rounds": rounds}}, results)
    return [run.value for run in runs]


def test_a_run_without_a_model_that_is_to_be_kept_is_missing(trained):
    config, folder = trained
    assert missing(config, folder, []) == []
    assert missing(config, folder, KEPT) == []
    assert missing(config, folder, [0, 1, 2]) == ["mu=0", "mu=0.5"]
    (folder / "models/mu=0.5/round=2.safetensors").unlink()
    assert missing(config, folder, KEPT) == ["mu=0.5"]
    assert missing(config, folder, [0]) == []


def test_runs_of_another_configuration_are_missing(trained):
    config, folder = trained
    other = config | {"training": tiny.TRAINING | {"lr": 0.02}}
    assert missing(other, folder, []) == ["mu=0", "mu=0.5"]
    shutil.rmtree(folder)
    assert missing(config, folder, []) == ["mu=0", "mu=0.5"]


def test_a_failed_run_lacks_no_model_of_a_later_round(prepared, trained, tmp_path):
    config, folder = trained
    failing = tiny.settings("fedprox", [{"mu": 0.0}, {"mu": 0.5}], lr=1e30)
    settings = failing | {"keep_model_rounds": KEPT}
    jobs.run(tiny.federated, settings, folder, scratch=tmp_path / "scratch", partition=prepared)
    config = config | {"training": failing["training"]}
    assert missing(config, folder, KEPT) == []
    assert missing(config, folder, [2]) == []
    (folder / "models/mu=0/round=0.safetensors").unlink()
    assert missing(config, folder, KEPT) == ["mu=0"]
