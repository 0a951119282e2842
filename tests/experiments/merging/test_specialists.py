"""The stages of merging: examples, base, specialists that survive kills, evaluations, tables."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedscan.experiments.comparison import training as federated
from fedscan.experiments.merging import accuracy as specialist_accuracy
from fedscan.experiments.merging import base as merging_base
from fedscan.experiments.merging import merges, specialists
from fedscan.experiments.merging import rows as merge_rows
from fedscan.experiments.merging import summary as merging
from fedscan.experiments.merging import tasks as task_data
from fedscan.experiments.merging.bench import Bench
from fedscan.experiments.merging.checks import checks as merging_checks
from fedscan.experiments.merging.grid import merges as plan_merges
from fedscan.experiments.registry import tables
from fedscan.io import checkpoints, parquet
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.model_files import read_base, read_model
from fedscan.problems import fine_tuning
from tests import jobs
from tests.experiments import tiny as federated_tiny
from tests.experiments.merging import tiny
from tests.jobs import silent

TABLES = tables()

EVALUATION = "tasks/task={}/subset=evaluation"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Everything, once; tests that change something work on copies."""
    root = tmp_path_factory.mktemp("results") / "merging"
    tiny.prepare(root)
    for task in tiny.TASKS:
        tiny.tune(root, task, specialists)
    evaluate(root)
    merge(root)
    return root


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy/merging"))


def evaluate(root, report=silent, **changes):
    folder = f"{root}/accuracy/base=tiny"
    settings = tiny.accuracy_settings(**changes)
    places = {"results": Path(root).parent, "scratch": f"{root}/checkpoints/accuracy"}
    jobs.run(specialist_accuracy, settings, folder, report=report, **places)
    return parquet.read_frame(
        f"{folder}/specialist_accuracy.parquet", TABLES["specialist_accuracy"]
    )


def merge(root, report=silent, **changes):
    folder = f"{root}/merges/base=tiny/seed=0"
    settings = tiny.merge_settings(**changes)
    places = {"results": Path(root).parent, "scratch": f"{root}/checkpoints/merges"}
    jobs.run(merges, settings, folder, report=report, **places)
    return {t.name: parquet.read_frame(f"{folder}/{t.name}.parquet", t) for t in merges.TABLES}


class Lines(list):
    """A log that keeps its lines."""

    def __call__(self, text):
        self.append(text)

    def advance(self, *_):
        pass


def trees(root):
    return {p.relative_to(root): p.read_bytes() for p in Path(root).rglob("*") if p.is_file()}


def test_examples_are_deterministic_and_evaluation_does_not_depend_on_the_seed(tmp_path):
    for name, split, seed in (("a", "train", 0), ("b", "train", 0), ("c", "train", 1)):
        jobs.run(task_data, tiny.data_settings("trec", split, seed), tmp_path / name)
    one, same, other = ((tmp_path / n / "examples.parquet").read_bytes() for n in "abc")
    assert one == same
    assert one != other
    rows = parquet.read_frame(tmp_path / "a/examples.parquet", TABLES["task_examples"])
    assert len(rows) == 24
    assert rows["label"].nunique() > 3
    assert rows["source_row"].is_unique


def test_an_error_of_the_library_is_said_with_the_key_it_goes_back_to(tmp_path):
    files = {"trec": {"train": str(tmp_path / "a.csv"), "evaluation": str(tmp_path / "b.csv")}}
    base = {"origin": "nowhere", "precision": "float32", "tokenizer": {"name": "bytes"}}
    for stage, settings, said in (
        (task_data, tiny.data_settings("trec", "train", 0, reserved_tokens=1),
         r"^merging\.max_tokens, merging\.reserved_tokens: trec: .* 1 are reserved"),
        (task_data, tiny.data_settings("trec", "train", 0, max_tokens=37),
         r"^merging\.max_tokens, merging\.reserved_tokens: trec: .* at most 37, 36 of them"),
        (task_data, tiny.data_settings("trec", "train", 0, source="local", own=files),
         r"^merging\.local: .*a\.csv: no such file"),
        (merging_base, base, r"^merging\.bases \(a folder, .*\): 'nowhere' is no folder"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            jobs.run(stage, settings, tmp_path)


def test_the_best_federated_model_becomes_a_base(tmp_path, prepared):
    values = [{"mu": 0.0}, {"mu": 0.5}]
    settings = federated_tiny.settings("fedprox", values) | {"keep_final_model": True}
    path = "backbone=mamba2/clients=2/setting=1/depth=1/E=3/beta=0.7/algorithm=fedprox/seed=0"
    folder = tmp_path / "federated" / path
    jobs.run(federated, settings, folder, scratch=tmp_path / "c", partition=prepared)
    base = {"origin": "federated", "precision": "float32", "tokenizer": {"name": "bytes"}}
    base["jobs"] = [path]
    jobs.run(merging_base, base, tmp_path / "base", results=tmp_path)
    runs = parquet.read_frame(folder / "runs.parquet", TABLES["runs"]).set_index("value")
    best = runs["val_ppl_last10"].idxmin()
    (facts,) = parquet.read(tmp_path / "base/base.parquet", TABLES["merging_base"]).to_pylist()
    assert facts["selected"] == f"{path}/{best}"
    assert facts["val_ppl_last10"] == runs.loc[best, "val_ppl_last10"]
    shape, params = read_base(tmp_path / "base")
    assert shape.chunk_size == federated_tiny.MODEL["chunk_size"]
    arrays, _ = checkpoints.load(folder / "models" / f"{best}.safetensors")
    assert all(np.array_equal(arrays[name], tensor.numpy()) for name, tensor in params.items())
    # A written base is a checkpoint like any other, unless it cannot read the tokens.
    again = {**base, "origin": str(tmp_path / "base")}
    jobs.run(merging_base, again, tmp_path / "again")
    same = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("base", "again")]
    assert same[0] == same[1]
    gpt2 = {**again, "tokenizer": {"name": "gpt2", "gpt2": {"folder": None}}}
    with pytest.raises(ValueError, match="its embedding has 264 rows; tokenizer 'gpt2' needs"):
        jobs.run(merging_base, gpt2, tmp_path / "x")
    (folder / "models" / f"{best}.safetensors").unlink()
    with pytest.raises(ValueError, match="no such model; set workflow.keep_final_model"):
        jobs.run(merging_base, base, tmp_path / "base", results=tmp_path)


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


class Killed(BaseException):
    """What a kill looks like from inside."""


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


def epochs_run(monkeypatch):
    done = []
    real = specialists.train_epoch

    def counted(*arguments):
        done.append(arguments[3].mu)
        return real(*arguments)

    monkeypatch.setattr(specialists, "train_epoch", counted)
    return done


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
            raise fine_tuning.Diverged("non-finite loss", 5)
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


def test_every_model_is_evaluated_on_every_task(finished):
    table = evaluate(finished)
    assert len(table) == (1 + 2 * 2 * 2) * 2
    assert table["model"].nunique() == 9
    assert table.loc[table["kind"] == "zero_shot", "seed"].isna().all()
    bench = Bench(tiny.accuracy_settings(), finished)
    path = bench.specialists(0)["trec", 0.0, 3].path
    scores = bench.classifier.scores(
        bench.classifier.place(read_model(path, bench.shape)), bench.tasks["imdb"].examples, 3
    )
    right = (scores.argmax(1) == bench.tasks["imdb"].examples.targets).mean()
    row = table.query("trained_on == 'trec' and evaluated_on == 'imdb' and mu == 0 and epoch == 3")
    assert row["accuracy"].item() == pytest.approx(100 * right)
    assert row["chance"].item() == 50


def test_merges_are_what_the_operators_give(finished):
    found = merge(finished)
    expected = plan_merges(tiny.TUNING["mus"], [1, 3], tiny.OPERATORS)
    assert found["merges"]["model"].drop_duplicates().tolist() == [m.name for m in expected]
    assert len(found["merges"]) == 2 * len(expected) == 2 * (2 * 4 + 2)
    bench = Bench(tiny.merge_settings(), finished)
    models = [
        read_model(bench.specialists(0)[task, 0.0, 3].path, bench.shape) for task in tiny.TASKS
    ]
    mean = {name: (models[0][name] + models[1][name]) / 2 for name in bench.base}
    rows = bench.accuracies(mean, None)
    average = found["merges"].query("operator == 'average' and mu == 0 and epoch == 3")
    assert average["correct"].tolist() == [row["correct"] for row in rows]
    distance = sum(float((mean[n] - bench.base[n]).double().square().sum()) for n in mean) ** 0.5
    place = found["displacements"].query("operator == 'average' and mu == 0 and epoch == 3")
    assert place["displacement"].item() == pytest.approx(distance, rel=1e-5)


def test_displacements_obey_the_papers_inequalities(finished):
    places, vectors = (merge(finished)[name] for name in ("displacements", "task_vectors"))
    averages = places[places["operator"] == "average"]
    assert (averages["displacement"] <= averages["mean_norm"] * (1 + 1e-6)).all()
    assert averages["contained"].all()
    assert (places["radius"] >= places["mean_norm"]).all()
    norms = vectors.groupby(["mu", "epoch"])["norm"].max()
    joined = places.set_index(["mu", "epoch"])["radius"]
    assert all(norms[key] == pytest.approx(value) for key, value in joined.items())
    # Task arithmetic at one half of two tasks is the average.
    half = places.query("operator == 'task_arithmetic' and scale == 0.5")
    one = places.query("operator == 'average' and mu == 0")
    for column in ("displacement", "first_order", "loss"):
        assert half[column].tolist() == pytest.approx(one[column].tolist(), rel=1e-4)
    assert vectors["sum_ratio"].between(0, 2).all()
    assert (vectors["first_order"] < 0).all()  # each specialist starts downhill


def test_the_gradient_at_the_base_predicts_a_small_step(finished):
    bench = Bench(tiny.merge_settings(), finished)
    start = merge_rows.held_out(bench)
    length = sum(float(g.square().sum()) for g in start.gradient.values()) ** 0.5
    step = 1e-3 / length
    moved = {name: bench.base[name] - step * start.gradient[name] for name in bench.base}
    fallen = start.loss - merge_rows._loss(bench, moved)
    assert fallen == pytest.approx(step * length**2, rel=0.05)


def test_another_scale_evaluates_only_the_new_merges(copy):
    before = merge(copy)["merges"]
    lines = Lines()
    operators = {**tiny.OPERATORS, "task_arithmetic": {"scales": [0.5, 0.7, 1.0]}}
    after = merge(copy, lines, operators=operators)["merges"]
    assert len(after) == len(before) + 4
    fresh = [line for line in lines if "already in the tables" not in line]
    assert [line.split(":")[0] for line in fresh] == [
        f"epoch={epoch},mu=0,operator=task_arithmetic,scale=0.7" for epoch in (1, 3)
    ]
    kept = after[after["scale"] != 0.7].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, before)
    folder = copy / "merges/base=tiny/seed=0"
    grown = trees(folder)
    shutil.rmtree(folder)
    merge(copy, operators=operators)
    assert trees(folder) == grown


@pytest.mark.parametrize("after", [1, 5])
def test_a_killed_sweep_continues_and_ends_with_the_same_bytes(copy, monkeypatch, after):
    folder = copy / "merges/base=tiny/seed=0"
    whole = trees(folder)
    shutil.rmtree(folder)
    real, count = KeptRows.put, iter(range(1, 100))

    def put(self, unit, rows):
        real(self, unit, rows)
        if next(count) == after:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(KeptRows, "put", put)
        with pytest.raises(Killed):
            merge(copy)
    assert len(json.loads((copy / "checkpoints/merges/rows.json").read_text())) == after
    lines = Lines()
    merge(copy, lines)
    assert sum("already" in line for line in lines) == after
    assert trees(folder) == whole


def test_a_replaced_specialist_is_refused(copy):
    path = Path(tiny.specialist_folder(copy, "trec"), "models/mu=0/epoch=3.safetensors")
    other = Path(tiny.specialist_folder(copy, "imdb"), "models/mu=0/epoch=3.safetensors")
    shutil.copy(other, path)
    with pytest.raises(ValueError, match=r"epoch=3.safetensors: missing or changed .* delete"):
        merge(copy)


def test_tokens_outside_the_vocabulary_are_refused(copy):
    folder = copy / EVALUATION.format("trec")
    rows = parquet.read(folder / "examples.parquet", TABLES["task_examples"]).to_pylist()
    rows[3]["prompt"][0] = 300
    parquet.write(folder / "examples.parquet", TABLES["task_examples"], rows, {})
    with pytest.raises(ValueError, match="token id 300; the model has 264 embeddings"):
        merge(copy)


def report(root):
    settings = {"bases": {"tiny": "Mamba2-130M"}, "seeds": [0], "source": "synthetic"}
    facts = {
        "source": "x", "selected": "", "val_ppl_last10": None, "parameters": 1000,
        "precision": "float32", "tokenizer": "bytes", "vocab_size": 264, "sha256": "",
    }  # fmt: skip
    parquet.write(root / "bases/base=tiny/base.parquet", TABLES["merging_base"], [facts], {})
    jobs.run(merging, settings, root / "tables", results=root.parent)


def test_tables_stand_beside_the_papers(copy):
    report(copy)
    table = parquet.read_frame(copy / "tables/numbers.parquet", TABLES["numbers"])
    found = table.set_index(["table", "row", "quantity"])
    row = found.loc[("table29", "Mamba2-130M average epochs=1", "accuracy_mean")]
    assert row["paper"] == 34.4
    assert "synthetic tasks, tiny of 1,000 parameters" in row["note"]
    merged = merge(copy)["merges"].query("operator == 'average' and mu == 0 and epoch == 1")
    assert row["value"] == pytest.approx(merged["accuracy"].mean())
    sweep = merge(copy)["merges"].query("operator == 'task_arithmetic' and mu == 0 and epoch == 3")
    best = sweep.groupby("scale")["accuracy"].mean()
    row = found.loc[("table29", "Mamba2-130M task-arithmetic epochs=3", "lambda")]
    assert row["value"] == best.idxmax()
    assert "the paper: real tasks" in row["note"]
    missing = found.loc[("table33", "Mamba2-130M average mu=0.001 epochs=4", "accuracy_mean")]
    assert pd.isna(missing["value"])
    assert missing["paper"] == 30.6
    assert "Mamba2-370M" not in "".join(table["row"])
    text = (copy / "tables/summary.txt").read_text()
    assert "specialists, own task, epoch 3" in text
    for name in ("scales", "tasks", "displacements"):
        assert (copy / f"tables/{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (copy / f"tables/{name}.svg").read_text().startswith("<?xml")


def checked(root, code="code", **changes):
    """Name of check -> (all passed, details)."""
    used = tiny.merge_settings()
    settings = {
        "bases": ["tiny"],
        "seeds": [0],
        "codes": {"specialists": code, "merges": code},
        "rerun_on_code_change": True,
        **{k: used[k] for k in ("tasks", "mus", "checkpoint_epochs", "operators")},
        **changes,
    }
    found = {}
    for check in merging_checks(settings, root.parent):
        passed, details = found.get(check.check, (True, []))
        found[check.check] = (passed and check.passed, [*details, check.detail])
    return found


def test_checks_pass_on_finished_merges_and_find_what_is_wrong(copy):
    table = parquet.read_frame(copy / "merges/base=tiny/seed=0/merges.parquet", TABLES["merges"])
    code = str(table["code_hash"].iloc[0])
    assert all(passed for passed, _ in checked(copy, code).values())
    older = checked(copy, "another")
    assert not older["merging results of the present code"][0]
    accepted = checked(copy, "another", rerun_on_code_change=False)
    assert accepted["merging results of the present code"][0]
    assert "rows of other code" in accepted["merging results of the present code"][1][0]
    more = tiny.merge_settings()["operators"] | {"task_arithmetic": {"scales": [9.0]}}
    assert not checked(copy, code, operators=more)["every merge on every task"][0]
    model = next(copy.rglob("models/**/*.safetensors"))
    model.write_bytes(model.read_bytes()[:-1])
    changed = checked(copy, code)["specialists' models are those of the table"]
    assert not changed[0]
    assert model.name in " ".join(changed[1])
