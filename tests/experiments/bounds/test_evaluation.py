"""Teachers, learners, evaluation, stacks and bounds on small data: whole, resumable, immutable."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from fedscan.experiments.bounds import evaluation, learners, measures, stacks
from fedscan.experiments.bounds import summary as bounds
from fedscan.experiments.bounds.checks import checks
from fedscan.experiments.bounds.comparisons import COMPARISONS, measured
from fedscan.experiments.registry import tables
from fedscan.experiments.teachers import teachers
from fedscan.experiments.teachers.checks import checks as teacher_checks
from fedscan.experiments.teachers.datasets import read_datasets
from fedscan.io import atomic, parquet
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import Shape
from tests import jobs

TABLES = tables()

SHAPE = Shape(4, 4)
PATH = "D=4/N=4"
RHOS = [0.5, 0.95]
LEARNERS = {
    "seeds": [0, 1],
    "lr": 0.05,
    "batch_size": 32,
    "updates": 20,
    "checkpoint_every": 10,
    "bound_checkpoints": [0, 10, 20],
}
SMOOTHNESS = {"kernels": "cpu", "sequences": 4, "iterations": 15, "tolerance": 1e-9, "step": 1e-3}
STACKS = {
    "d_input": 4,
    "d_state": 4,
    "depths": [1, 2],
    "rhos": [0.5],
    "scales": [0.3],
    "points": 1,
    "sequences": 2,
    "length": 6,
    "updates": 2,
}
SHARED = {"d_input": 4, "d_state": 4, "sequence_length": 32}


def make_teachers(folder):
    sizes = {"train_sequences": 256, "test_sequences": 64, "burn_in": 8}
    jobs.run(teachers, SHARED | sizes | {"rhos": RHOS, "code": "c"}, folder)


def train(results, values=None, code="c", rerun=True, folder="learners"):
    settings = SHARED | {"learners": LEARNERS | (values or {}), "code": code}
    settings["rerun_on_code_change"] = rerun
    jobs.run(learners, settings, f"{results}/{folder}/{PATH}",
             scratch=f"{results}/checkpoints/{PATH}",
             teachers=f"{results}/teachers/{PATH}")  # fmt: skip


def evaluate(results):
    settings = SHARED | {"learners": LEARNERS, "evaluation": SMOOTHNESS}
    inputs = {name: f"{results}/{name}/{PATH}" for name in ("teachers", "learners")}
    jobs.run(evaluation, settings, f"{results}/evaluation/{PATH}", **inputs)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    make_teachers(results / "teachers" / PATH)
    train(results)
    evaluate(results)
    settings = {"sequence_length": 32, "learners": LEARNERS, "evaluation": SMOOTHNESS}
    teachers_folder = f"{results}/teachers/{PATH}"
    jobs.run(stacks, settings | {"stacks": STACKS}, f"{results}/stacks", teachers=teachers_folder)
    jobs.run(bounds, {"shapes": [[4, 4]]}, f"{results}/bounds", results=results)
    return results


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "results")
    return tmp_path / "results"


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*.parquet")}


def test_teachers_are_written_with_their_search(finished):
    folder = finished / "teachers" / PATH
    rows = pd.read_parquet(folder / "teachers.parquet")
    tried = pd.read_parquet(folder / "candidates.parquet")
    assert rows["rho"].tolist() == RHOS
    for row in rows.to_dict("records"):
        mine = tried[tried["rho"] == row["rho"]]
        assert mine["accepted"].sum() == 1
        assert mine["candidate"].max() == row["candidates"]
        refused = mine[~mine["accepted"] & (mine["sample"] == "full")]
        assert (refused["refused"] != "").all()
    found = read_datasets(folder, SHAPE, 32)
    assert found[0.5].train.shape == (256, 32)
    teacher = found[0.95]
    predicted = cpu.predict(teacher.params, teacher.test, SHAPE, teacher.temperature)
    assert predicted.losses.mean() == teacher.test_nll
    # Other readers take the folders' keys as columns.
    whole = pads.dataset(
        sorted((finished / "teachers").rglob("teachers.parquet")),
        partitioning="hive",
        partition_base_dir=str(finished),
    ).to_table()
    assert {"D", "N"} <= set(whole.column_names)


def test_the_same_bytes_every_time(finished, tmp_path):
    make_teachers(tmp_path / "teachers" / PATH)
    train(tmp_path)
    evaluate(tmp_path)
    again = contents(tmp_path)
    first = contents(finished)
    assert again
    assert all(first[name] == data for name, data in again.items())


@pytest.mark.parametrize("what", ["token", "parameter"])
def test_a_changed_byte_is_named(copy, what):
    folder = copy / "teachers" / PATH
    name = "teacher_sequences" if what == "token" else "teachers"
    table = pq.read_table(folder / f"{name}.parquet", partitioning=None)
    rows = table.to_pylist()
    row = rows[-1]
    key = "tokens" if what == "token" else "parameters"
    row[key][0] = (row[key][0] + 1) % 4
    changed = table.from_pylist(rows, schema=table.schema)
    pq.write_table(changed, folder / f"{name}.parquet")
    with pytest.raises(ValueError, match=rf"{name}\.parquet: \w+ of D=4, N=4, rho=0\.95 changed"):
        evaluate(copy)


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


def test_evaluation_counts_and_joins(finished):
    folder = finished / "evaluation" / PATH
    points = pd.read_parquet(folder / "points.parquet")
    gradients = pd.read_parquet(folder / "gradients.parquet")
    curvature = pd.read_parquet(folder / "curvature.parquet")
    pairs = pd.read_parquet(folder / "trajectories.parquet")
    assert len(points) == 2 * 2 * 4
    assert len(gradients) == len(points) * 64
    assert len(curvature) == len(points) * 4
    assert len(pairs) == 2 * 2 * 2
    assert (points["G_tight"] <= points["G"]).all()
    assert (points["L_tight"] <= points["L"]).all()
    assert (points["L"] <= points["L_step"]).all()
    blocks = gradients[[f"gradient_{b}" for b in ("W_delta", "W_B", "W_C", "A")]]
    assert np.allclose(np.sqrt((blocks**2).sum(axis=1)), gradients["gradient_norm"])
    teachers_rows = points[points["checkpoint"] == "frozen_teacher"]
    assert teachers_rows["update"].isna().all()
    assert teachers_rows.groupby("rho")["gradient_max"].nunique().tolist() == [1, 1]
    # A projected entry sits epsilon inside the set, closer than the step: not applicable.
    assert 0 < curvature["applicable"].mean() < 1
    assert pd.read_parquet(folder / "violations.parquet").empty


def test_a_violation_is_counted_stored_and_fails_the_check(copy, monkeypatch):
    real = evaluation.point_bounds

    def too_small(*arguments):
        found = real(*arguments)
        return found._replace(values=found.values | {"G_tight": found.values["G_tight"] * 1e-12})

    monkeypatch.setattr(evaluation, "point_bounds", too_small)
    evaluate(copy)
    folder = copy / "evaluation" / PATH
    points = pd.read_parquet(folder / "points.parquet")
    assert (points["violations_tight"] == 64).all()
    assert (points["violations"] == 0).all()
    stored = pd.read_parquet(folder / "violations.parquet")
    row = stored.iloc[0]
    assert row["check"] == "gradient_norm <= G_tight"
    # What is stored reproduces the number.
    tokens = np.array(row["tokens"], np.uint8)[None]
    _, gradient = cpu.sequence_gradients(np.array(row["parameters"]), tokens, SHAPE)
    assert np.linalg.norm(gradient) == pytest.approx(row["measured"], rel=1e-12)
    assert json.loads(row["subject"])["checkpoint"] == "initialization"
    failed = [c for c in checks(CHECK, copy) if not c.passed]
    assert [c.check for c in failed] == ["no bound violated"]
    assert "violations" in failed[0].detail
    # Even if a column were forgotten: what is stored counts too.
    none = dict.fromkeys(points.filter(like="violation").columns, 0)
    parquet.write(folder / "points.parquet", TABLES["points"], points.assign(**none), {})
    (failed,) = (c for c in checks(CHECK, copy) if not c.passed)
    assert failed.detail.startswith("0 violations; ")


def test_every_comparison_has_teeth(copy, monkeypatch):
    """With bounds that are too small, each check finds violations wherever its bound holds."""
    real = evaluation.point_bounds

    def too_small(*arguments):
        found = real(*arguments)
        return found._replace(values={name: 1e-12 * v for name, v in found.values.items()})

    monkeypatch.setattr(evaluation, "point_bounds", too_small)
    evaluate(copy)
    folder = copy / "evaluation" / PATH
    points = pd.read_parquet(folder / "points.parquet")
    curvature = pd.read_parquet(folder / "curvature.parquet")
    stored = set(pd.read_parquet(folder / "violations.parquet")["check"])
    for comparison in COMPARISONS:
        name, condition = comparison.measured.name, comparison.condition
        assert f"{name} <= {comparison.bound.name}" in stored
        if comparison.measured.every:
            assert (points[comparison.flag.name] == points["sequences"]).all()
        else:
            holds = True if condition is None else curvature[condition.column.name]
            assert (curvature[comparison.flag.name] == holds).all()


def test_what_is_compared_is_measured():
    params, tokens = np.full(SHAPE.parameters, -0.5), np.zeros((2, 8), np.uint8)
    losses, gradients = cpu.sequence_gradients(params, tokens, SHAPE)
    at = measures.Sequences(params, tokens, SHAPE, losses, gradients, SMOOTHNESS)
    quantities = [*measured(every=True), *measured(every=False)]
    assert {quantity.name for quantity in quantities} == measures.MEASURES.keys()
    for quantity in quantities:
        found = measures.MEASURES[quantity.name](at)
        assert found.keys() == {column.name for column in quantity.columns}
        assert {len(values) for values in found.values()} == {len(tokens)}


CHECK = {
    "shapes": [[4, 4]],
    "rhos": RHOS,
    "sequence_length": 32,
    "seeds": [0, 1],
    "bound_checkpoints": [0, 10, 20],
    "learner_code": "c",
    "rerun_on_code_change": True,
}


def test_checks_pass_and_notice_what_is_missing(finished):
    assert all(check.passed for check in checks(CHECK, finished))
    (whole,) = teacher_checks(CHECK, finished)
    assert whole.passed
    (fewer,) = teacher_checks(CHECK | {"rhos": [0.5]}, finished)
    assert not fewer.passed
    missing = [c for c in checks(CHECK | {"seeds": [0, 1, 2]}, finished)
               if not c.passed]  # fmt: skip
    assert {c.check for c in missing} == {"one row per learner", "every point evaluated"}
    older = [c for c in checks(CHECK | {"learner_code": "d"}, finished)
             if not c.passed]  # fmt: skip
    assert [c.check for c in older] == ["results of the present code"]


def test_stacks_are_evaluated_without_violation(finished):
    rows = pd.read_parquet(finished / "stacks/stacks.parquet")
    assert len(rows) == 2 * (1 + 2)
    assert (rows["violations"] == 0).all()
    assert (rows["checks"] == 4 * 2 + 2 + 2 * rows["depth"]).all()
    assert (rows["G_realised"] <= rows["G"]).all()
    one = rows[rows["depth"] == 1]
    assert np.allclose(one["G"], one["G_realised"], rtol=1)
    assert np.allclose(one["G"], one["G_common"])
    for row in rows.to_dict("records"):
        assert len(row["input_bounds"]) == row["depth"]
        assert row["input_bounds"][0] == 1.0
        assert all(np.array(row["input_maxima"]) <= np.array(row["input_bounds"]))


def test_bounds_put_the_papers_numbers_beside_ours(finished):
    numbers = pd.read_parquet(finished / "bounds/numbers.parquet")
    first = numbers.query("table == 'table1' and quantity == 'evaluations'").set_index("row")
    assert first.loc["gradient_norm<=G_SSM", "value"] == 16 * 64
    assert first.loc["gradient_norm<=G_SSM", "paper"] == 1_327_104
    only_paper = numbers[numbers["value"].isna() & numbers["paper"].notna()]
    assert only_paper["note"].str.startswith("not in this run").all()
    pngs = sorted(p.name for p in (finished / "bounds").glob("*.png"))
    assert len(pngs) == 9
    assert "gradient_norm<=G_SSM" in (finished / "bounds/summary.txt").read_text()


def test_no_teacher_is_an_error_that_says_why(tmp_path):
    settings = SHARED | {"train_sequences": 256, "test_sequences": 64, "burn_in": 0, "code": "c"}
    with pytest.raises(ValueError, match=r"no teacher for D=4, N=4, rho=0\.5: 39 candidates"):
        jobs.run(teachers, settings | {"sequence_length": 2, "rhos": [0.5]}, tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))
