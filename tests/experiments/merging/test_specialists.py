"""Specialists survive kills and are kept by what they depend on."""

import shutil
from pathlib import Path

import pytest
import torch

from fedscan.experiments.merging import specialists
from fedscan.io import checkpoints, parquet
from fedscan.pipeline.model_files import read_base, read_model
from fedscan.problems import central_steps
from tests.experiments.merging import tiny
from tests.experiments.merging.made import (
    TABLES,
    Killed,
    epochs_run,
    evaluate,
    merge,
    report,
    trees,
)


def test_specialists_are_kept_per_checkpoint_epoch(finished):
    folder = Path(tiny.specialist_folder(finished, "trec"))
    rows = parquet.read_frame(folder / "specialists.parquet", TABLES["specialists"])
    assert [(r.mu, r.epoch) for r in rows.itertuples()] == [
        (mu, epoch) for mu in (0.0, 0.1) for epoch in (1, 2, 3)
    ]
    assert (rows["status"] == "completed").all()
    assert rows["model_file"].notna().tolist() == [True, False, True] * 2
    assert sorted(p.name for p in folder.rglob("*.safetensors")) == [
        "epoch=1.safetensors", "epoch=1.safetensors", "epoch=3.safetensors", "epoch=3.safetensors",
    ]  # fmt: skip
    moved = rows[rows["epoch"] == 3].set_index("mu")["displacement"]
    assert moved[0.1] < moved[0.0]
    shape, base = read_base(finished / "bases/base=tiny")
    specialist = read_model(folder / "models/mu=0/epoch=3.safetensors", shape)
    found = sum(float((specialist[n] - base[n]).double().square().sum()) for n in base) ** 0.5
    assert moved[0.0] == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 6, 8])
def test_a_training_killed_after_any_write_ends_with_the_same_bytes(
    finished, tmp_path, monkeypatch, writes
):
    shutil.copytree(finished / "bases", tmp_path / "bases")
    shutil.copytree(finished / "tasks", tmp_path / "tasks")
    count = iter(range(1, 100))

    def interrupted(real):
        def write(*arguments, **options):
            real(*arguments, **options)
            if next(count) == writes:
                raise Killed

        return write

    with monkeypatch.context() as patched:
        patched.setattr(specialists, "write_model", interrupted(specialists.write_model))
        patched.setattr(checkpoints, "save", interrupted(checkpoints.save))
        with pytest.raises(Killed):
            tiny.tune(tmp_path, "trec", specialists)
    assert not list(tmp_path.rglob("specialists.parquet"))
    tiny.tune(tmp_path, "trec", specialists)
    ours, whole = (trees(tiny.specialist_folder(root, "trec")) for root in (tmp_path, finished))
    assert ours == whole
    assert not (tmp_path / "checkpoints/trec").exists()


def test_another_mu_trains_only_what_is_missing(copy, monkeypatch):
    before = trees(tiny.specialist_folder(copy, "trec"))
    done = epochs_run(monkeypatch)
    tiny.tune(copy, "trec", specialists, mus=[0.0, 0.01, 0.1])
    assert done == [0.01] * 3
    done.clear()
    tiny.tune(copy, "trec", specialists)
    after = trees(tiny.specialist_folder(copy, "trec"))
    assert done == []
    assert {path: after[path] for path in before} == before


def test_a_deleted_model_or_another_recipe_trains_again(copy, monkeypatch):
    done = epochs_run(monkeypatch)
    before = trees(tiny.specialist_folder(copy, "trec"))
    Path(tiny.specialist_folder(copy, "trec"), "models/mu=0.1/epoch=1.safetensors").unlink()
    tiny.tune(copy, "trec", specialists)
    assert done == [0.1] * 3
    assert trees(tiny.specialist_folder(copy, "trec")) == before
    tiny.tune(copy, "trec", specialists, lr=0.02)
    assert done[3:] == [0.0] * 3 + [0.1] * 3


def test_bfloat16_specialists_are_stored_in_bfloat16(copy):
    tiny.tune(copy, "trec", specialists, precision="bfloat16", mus=[0.0])
    shape, _ = read_base(copy / "bases/base=tiny")
    path = Path(tiny.specialist_folder(copy, "trec"), "models/mu=0/epoch=3.safetensors")
    assert {t.dtype for t in read_model(path, shape).values()} == {torch.bfloat16}


def test_a_failed_training_is_recorded_and_its_merges_too(copy, monkeypatch):
    def diverging(classifier, examples, base, recipe, state, plan):
        if recipe.mu == 0 and state.epoch == 1:
            raise central_steps.Diverged("non-finite loss", 5)
        return real(classifier, examples, base, recipe, state, plan)

    real = specialists.train_epoch
    monkeypatch.setattr(specialists, "train_epoch", diverging)
    shutil.rmtree(tiny.specialist_folder(copy, "trec"))
    tiny.tune(copy, "trec", specialists)
    table = Path(tiny.specialist_folder(copy, "trec"), "specialists.parquet")
    rows = parquet.read_frame(table, TABLES["specialists"]).set_index(["mu", "epoch"])
    assert rows["status"].tolist() == ["completed", "failed", "failed"] + ["completed"] * 3
    assert rows.loc[(0.0, 3), "failure"] == "non-finite loss at step 5"
    accuracy = evaluate(copy)
    failed = accuracy[accuracy["status"] == "failed"]
    assert set(failed["model"]) == {"epoch=3,mu=0,seed=0,task=trec"}
    assert len(failed) == 2
    assert failed["accuracy"].isna().all()
    found = merge(copy)
    for table in found.values():
        bad = table[table["status"] == "failed"]
        assert set(zip(bad["mu"], bad["epoch"], strict=True)) == {(0.0, 3)}
        assert set(bad["failure"]) == {"non-finite loss at step 5"}
    report(copy)
    text = (copy / "tables/summary.txt").read_text()
    assert "no complete merge" in text
    # 2 of the specialist, 2 tasks x 4 merges; failed ones are not run again.
    assert "10 failed evaluations" in text
    done = epochs_run(monkeypatch)
    tiny.tune(copy, "trec", specialists)
    assert done == []
