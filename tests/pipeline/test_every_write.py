"""A death at any write: the next start ends with the bytes of an uninterrupted run.

A run is watched: before each rename the disk is copied, with the file that was being written torn
in half. Each copy is what SIGKILL at that moment leaves behind, and is continued.
"""

import os
import shutil
from pathlib import Path

import pytest

from fedscan.experiments.bounds import learners
from fedscan.experiments.merging import specialists
from fedscan.experiments.students import training as students
from fedscan.experiments.teachers import teachers
from fedscan.io import atomic
from tests import jobs
from tests.experiments import tiny
from tests.experiments.bounds import made as made_bounds
from tests.experiments.consensus import conftest as consensus
from tests.experiments.consensus import made as made_consensus
from tests.experiments.merging import made as made_merging
from tests.experiments.merging import tiny as merging_tiny
from tests.experiments.students import test_training as test_students
from tests.federated.conformance import SMALL


def tables(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*.parquet")}


def try_every_write(action, folder, monkeypatch):
    """Run whole, keeping the disk as it is before each rename; go on from each. How many?"""
    deaths, rename = [], os.replace

    def replace(source, target):
        if not Path(target).is_relative_to(folder):  # Numba keeps its machine code elsewhere
            return rename(source, target)
        death = folder.with_name(f"{folder.name}-{len(deaths)}")
        shutil.copytree(folder, death)
        torn = death / Path(source).relative_to(folder)
        torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
        deaths.append(death)
        return rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "replace", replace)
        action()
    wanted = tables(folder)
    for death in deaths:
        shutil.rmtree(folder)
        death.rename(folder)
        action()
        assert tables(folder) == wanted, death.name
        assert not [p for p in folder.rglob("checkpoints/**/*") if p.is_file()]
    return len(deaths)


@pytest.fixture(scope="module")
def written_teachers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachers")
    sizes = {"train_sequences": 256, "test_sequences": 64, "burn_in": 8, "sequence_length": 32}
    jobs.run(teachers, {"d_input": 4, "d_state": 4, "rhos": [0.5], "code": "c", **sizes}, folder)
    return folder


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_training_killed_at_any_write_ends_with_the_same_bytes(
    prepared, tmp_path, monkeypatch, algorithm
):
    job = tiny.settings(algorithm, [SMALL[algorithm]], rounds=3)
    folder = tmp_path / "job"
    writes = try_every_write(lambda: tiny.train(job, prepared, folder), folder, monkeypatch)
    assert writes == 3 + 5  # a checkpoint a round, five tables


def test_a_training_killed_at_any_write_ends_with_the_same_models(prepared, tmp_path, monkeypatch):
    job = tiny.settings("fedprox", [{"mu": 0.0}, {"mu": 0.5}], rounds=3)
    job |= {"keep_final_model": True, "keep_model_rounds": [0, 1, 3]}
    folder, found = tmp_path / "job", []

    def train():
        tiny.train(job, prepared, folder)
        models = sorted(folder.rglob("models/**/[!.]*.safetensors"))
        found.append({str(p.relative_to(folder)): p.read_bytes() for p in models})

    # Per value three checkpoints, three kept rounds, the final model; five tables.
    assert try_every_write(train, folder, monkeypatch) == 2 * (3 + 3 + 1) + 5
    assert len(found[0]) == 2 * 4
    assert all(models == found[0] for models in found)


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_student_killed_at_any_write_ends_with_the_same_bytes(
    written_teachers, tmp_path, monkeypatch, algorithm
):
    monkeypatch.setattr(students, "CHECKPOINT_EVERY", 1)
    cell = test_students.CORE
    run = next(run for run in test_students.CELLS[cell] if run.algorithm == algorithm)
    values = test_students.settings(cell, [run], rounds=3)
    folder = tmp_path / "cell"

    def train():
        scratch = folder / "checkpoints"
        jobs.run(students, values, folder / "job", scratch=scratch, teachers=written_teachers)

    assert (
        try_every_write(train, folder, monkeypatch) == 3 + 3
    )  # a checkpoint a round, three tables


def test_learners_killed_at_any_write_end_with_the_same_bytes(
    written_teachers, tmp_path, monkeypatch
):
    values = made_bounds.LEARNERS | {"seeds": [0]}
    settings = made_bounds.SHARED | {"learners": values, "code": "c", "rerun_on_code_change": True}
    folder = tmp_path / "learners"

    def train():
        scratch = folder / "checkpoints"
        jobs.run(learners, settings, folder / "job", scratch=scratch, teachers=written_teachers)

    # A checkpoint per ten updates, two tables.
    assert try_every_write(train, folder, monkeypatch) == 2 + 2


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    root = tmp_path_factory.mktemp("results") / "merging"
    merging_tiny.prepare(root)
    for task in merging_tiny.TASKS:
        merging_tiny.tune(root, task, specialists)
    return root


def unfinished(root):
    shutil.rmtree(root / "checkpoints", ignore_errors=True)


@pytest.mark.parametrize("stage", ["accuracy", "merges"])
def test_sweeps_killed_at_any_write_end_with_the_same_bytes(tuned, tmp_path, monkeypatch, stage):
    folder = tmp_path / "results" / "merging"
    shutil.copytree(tuned, folder)
    unfinished(folder)
    # Few models: every one is evaluated again after each death.
    fewer = {"mus": [0.0], "checkpoint_epochs": [3]}
    run = {
        "accuracy": lambda: made_merging.evaluate(folder, **fewer),
        "merges": lambda: made_merging.merge(folder, **fewer),
    }[stage]
    # A row file per model and, at the end, the tables; the base's four merges and its task vectors.
    writes = try_every_write(run, folder, monkeypatch)
    assert writes == {"accuracy": 3 + 1, "merges": 5 + 3}[stage]


def test_specialists_killed_at_any_write_end_with_the_same_bytes(tuned, tmp_path, monkeypatch):
    folder = tmp_path / "results" / "merging"
    shutil.copytree(tuned, folder)
    shutil.rmtree(merging_tiny.specialist_folder(folder, "trec"))
    unfinished(folder)

    def train():
        merging_tiny.tune(folder, "trec", specialists, mus=[0.0])

    # Three epochs, a checkpoint each; two of them keep a model; one table.
    assert try_every_write(train, folder, monkeypatch) == 3 + 2 + 1


@pytest.mark.parametrize("stage", ["models", "theory"])
def test_consensus_killed_at_any_write_ends_with_the_same_bytes(tmp_path, monkeypatch, stage):
    folder = tmp_path / "results"
    kept = {"gate": made_consensus.VARIANTS["gate"], "random": made_consensus.VARIANTS["random"]}
    run = {
        "models": lambda: made_consensus.iterate(folder, variants=kept, draws=2),
        "theory": lambda: made_consensus.study(folder, kernels=["isotropic", "definite"]),
    }[stage]
    # A file per draw of a variant, five tables; one per instance with and without SiLU, one table.
    writes = try_every_write(run, folder, monkeypatch)
    assert writes == {"models": 2 * 2 + 5, "theory": 2 * 2 + 1}[stage]


@pytest.mark.parametrize("stage", ["runs", "merges"])
def test_consensus_of_models_killed_at_any_write_ends_with_the_same_bytes(
    tuned, prepared, tmp_path, monkeypatch, stage
):
    folder = tmp_path / "results"
    if stage == "runs":
        listed = consensus.train(folder, prepared, betas=(0.0,))[:1]
        shape = tiny.MODEL
    else:
        shutil.copytree(tuned, folder / "merging")
        fewer = {"mus": [0.0], "checkpoint_epochs": [3]}
        made_merging.merge(folder / "merging", **fewer)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    unfinished(folder / "merging")
    run = {
        "runs": lambda: made_consensus.iterate_runs(folder, listed, shape),
        "merges": lambda: made_consensus.iterate_merges(folder, merges=["average"]),
    }[stage]
    # A file per model and variant, one table: two models; a base, two specialists, an average.
    writes = try_every_write(run, folder, monkeypatch)
    assert writes == {"runs": 2 * 2 + 1, "merges": 4 * 2 + 1}[stage]
