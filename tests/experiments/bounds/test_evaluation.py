"""Evaluations: counts join, and a violation is stored with what reproduces it."""

import json

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.bounds import evaluation, measures
from fedscan.experiments.bounds.checks import checks
from fedscan.experiments.bounds.comparisons import COMPARISONS, measured
from fedscan.io import parquet
from fedscan.models.selective_ssm import cpu
from tests.experiments.bounds.made import CHECK, PATH, SHAPE, SMOOTHNESS, TABLES, evaluate


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
