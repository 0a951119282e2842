"""Merges are what the operators give, and a killed sweep continues."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedscan.experiments.merging import rows as merge_rows
from fedscan.experiments.merging.bench import Bench
from fedscan.experiments.merging.grid import merges as plan_merges
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.model_files import read_model
from tests.experiments.merging import tiny
from tests.experiments.merging.made import Killed, Lines, merge, trees


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
    assert len(list((copy / "checkpoints/merges/rows").iterdir())) == after
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
