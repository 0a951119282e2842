"""Federated learners on a small dataset: rows, bounds, resuming, independence of the job."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedscan import declared
from fedscan.experiments.students import bounds as student_bounds
from fedscan.experiments.students import summary as student_tables
from fedscan.experiments.students import training as students
from fedscan.experiments.students.grid import Cell, StudentRun, cell_path, student_runs
from fedscan.experiments.teachers import teachers
from fedscan.federated.algorithm import Step
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.io import atomic
from fedscan.params.algebra import multiply
from tests import jobs
from tests.federated.conformance import SMALL

# Every algorithm once, in miniature; the rates of a language model are too small to move a learner.
STEPS = {"fedprox": {"mu": 0.1}, "scaffold": {"correction_scale": 0.5, "control_bound": 1.0}}
ALL = {
    name: {key: [value] for key, value in {**values, **STEPS.get(name, {})}.items()}
    for name, values in SMALL.items()
}
FACTORS = ["fedavg", "fedprox"]
SYNTHETIC = {
    "d_input": [4],
    "d_state": [4],
    "rhos": [0.5, 0.95],
    "federated": {
        "rounds": 4,
        "seeds": [0],
        "evaluate_every": 2,
        "subset": 32,
        "core": {"d_input": 4, "d_state": 4, "rho": 0.5},
        "studies": {
            "base": {
                "cells": "all", "clients": [4], "local_steps": [16], "partitions": ["iid"],
                "algorithms": list(ALL), "hyperparameters": ALL,
            },
            "clients": {
                "cells": "core", "clients": [2, 4], "local_steps": [16], "partitions": ["iid"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
            "local_steps": {
                "cells": "core", "clients": [4], "local_steps": [1, 4], "partitions": ["iid"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
            "partition": {
                "cells": "core", "clients": [4], "local_steps": [16], "partitions": ["dominant"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
        },
    },
}  # fmt: skip
CELLS = student_runs(SYNTHETIC)


def settings(cell, runs=None, **changes):
    federated = SYNTHETIC["federated"]
    return {
        **cell._asdict(),
        "runs": [list(run) for run in (CELLS[cell] if runs is None else runs)],
        "codes": dict.fromkeys(ALL, "c"),
        "sequence_length": 32,
        "lr": 0.05,
        "batch_size": 16,
        "rerun_on_code_change": True,
        **{name: federated[name] for name in ("rounds", "evaluate_every", "subset")},
    } | changes


def train(results, values, folder="students"):
    cell = Cell(values["d_input"], values["d_state"], values["rho"])
    path = cell_path(cell)
    jobs.run(students, values, f"{results}/{folder}/{path}",
             scratch=f"{results}/checkpoints/{path}",
             teachers=f"{results}/teachers/D=4/N=4")  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    sizes = {"train_sequences": 256, "test_sequences": 64, "burn_in": 8, "sequence_length": 32}
    settings_ = {"d_input": 4, "d_state": 4, "rhos": [0.5, 0.95], "code": "c", **sizes}
    jobs.run(teachers, settings_, f"{results}/teachers/D=4/N=4")
    for cell in CELLS:
        train(results, settings(cell))
    cells = [list(cell) for cell in CELLS]
    jobs.run(student_tables, {"cells": cells}, f"{results}/student_tables", results=results)
    return results


def frame(results, cell, table, folder="students"):
    return pd.read_parquet(results / folder / cell_path(cell) / f"{table}.parquet")


CORE, OTHER = Cell(4, 4, 0.5), Cell(4, 4, 0.95)


def test_runs_that_studies_share_are_one():
    assert [len(CELLS[cell]) for cell in (CORE, OTHER)] == [9 + 2 + 4 + 2] * 2
    shared = next(run for run in CELLS[CORE] if run[:4] == (4, 16, "iid", "fedavg"))
    assert shared.studies == ("base", "clients")
    assert isinstance(shared, StudentRun)


def test_rows_are_whole(finished):
    for cell in CELLS:
        runs, rounds = (
            frame(finished, cell, "student_runs"),
            frame(finished, cell, "student_rounds"),
        )
        assert len(runs) == len(CELLS[cell])
        assert (runs["status"] == "completed").all()
        assert runs["certified"].all()
        assert len(rounds) == 5 * len(runs)
        assert rounds["G"].notna().tolist() == [True, False, True, False, True] * len(runs)
        assert rounds["client_drift_mean"].notna().tolist() == [*[True] * 4, False] * len(runs)
        generic = runs["algorithm"].isin(["scaffold", "fedsam", "feddyn"])
        assert (runs["local_phase"] == np.where(generic, "generic", "compiled")).all()
        assert set(rounds.query("round == 0")["test_nll"]) == {rounds["test_nll"].iloc[0]}


def test_no_bound_is_violated_and_all_are_counted(finished):
    runs = frame(finished, CORE, "student_runs")
    assert (runs["violations"] == 0).all()
    # 3 evaluated rounds x 4, 4 local and 4 server displacements; FedAlign has no server bound.
    expected = np.where(runs["algorithm"] == "fedalign", 16, 20)
    assert (runs["checks"] == expected).all()
    rounds = frame(finished, CORE, "student_rounds").dropna(subset=["local_bound"])
    assert (rounds["displacement_max"] <= rounds["local_bound"]).all()
    bounded = rounds.dropna(subset=["server_bound"])
    assert (bounded["server_displacement"] <= bounded["server_bound"]).all()
    assert bounded["algorithm"].nunique() == 8
    assert (rounds["client_drift_max"] <= rounds["displacement_max"] * (1 + 1e-6)).all()


def test_theorems_are_evaluated_for_fedavg_and_fedprox(finished):
    runs = frame(finished, CORE, "student_runs").set_index("algorithm")
    assert runs.loc[["fedavg", "fedprox"], "right_side"].notna().all()
    assert runs.drop(["fedavg", "fedprox"])["right_side"].isna().all()
    proven = runs.loc[["fedavg", "fedprox"]]
    terms = proven[[c for c in runs.columns if c.startswith("term_")]].sum(axis=1)
    assert np.allclose(terms, proven["right_side"])
    assert (proven["left_side"] < proven["right_side"]).all()
    one_step = proven[proven["local_steps"] == 1]
    assert (one_step["term_heterogeneity"] == 0).all()
    rounds = frame(finished, CORE, "student_rounds")
    mine = rounds.query("algorithm == 'fedavg' and clients == 2 and round < 4")
    two = proven.loc["fedavg"].query("clients == 2")["left_side"].item()
    assert two == pytest.approx(mine["gradient_squared"].mean())
    assert np.allclose(proven["radius"], 0.05 * proven["local_steps"] * proven["G_initial"])


def test_runs_do_not_depend_on_what_shares_their_job(finished, tmp_path):
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    whole = frame(finished, CORE, "student_rounds")
    for run in CELLS[CORE][::5]:
        train(tmp_path, settings(CORE, [run]), folder=run.name)
        alone = frame(tmp_path, CORE, "student_rounds", run.name)
        together = whole
        for name in StudentRun._fields[:6]:
            together = together[together[name] == getattr(run, name)]
        pd.testing.assert_frame_equal(alone, together.reset_index(drop=True), check_exact=True)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*.parquet")}


def test_a_job_killed_before_any_write_resumes_to_the_same_bytes(finished, tmp_path, monkeypatch):
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    monkeypatch.setattr(students, "CHECKPOINT_EVERY", 1)
    chosen = [run for run in CELLS[CORE] if run.algorithm in ("fedavg", "scaffold")][:2]
    chosen += [run for run in CELLS[CORE] if run.algorithm == "scaffold"]
    values = settings(CORE, chosen)
    train(tmp_path, values, "whole")
    real = atomic.os.replace
    wanted = contents(tmp_path / "whole")

    def dying(last):
        left = iter(range(last))

        def replace(*arguments):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return real(*arguments)

        return replace

    for last in range(3 * 4 + 3):
        shutil.rmtree(tmp_path / "students", ignore_errors=True)
        monkeypatch.setattr(atomic.os, "replace", dying(last))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, values)
        monkeypatch.setattr(atomic.os, "replace", real)
        train(tmp_path, values)
        assert contents(tmp_path / "students") == wanted, last


def test_what_exists_is_kept(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "results")
    trained = []
    real = students._Run.train
    monkeypatch.setattr(
        students._Run, "train", lambda self, *rest: trained.append(self.item) or real(self, *rest)
    )
    results = tmp_path / "results"
    train(results, settings(CORE))
    assert trained == []
    assert contents(results) == contents(finished)
    train(results, settings(CORE, codes=dict.fromkeys(ALL, "c") | {"fedsam": "d"}))
    assert {run.algorithm for run in trained} == {"fedsam"}
    trained.clear()
    train(results, settings(OTHER, rounds=5))
    assert len(trained) == 17


def damped(*, mu):
    """A stranger's algorithm: its hyperparameter has FedProx's name, its local rule has not."""

    def local_gradient(grad_fn, params, batch, context):
        loss, gradient = grad_fn(params, batch)
        return Step(loss, multiply(gradient, 1 / (1 + mu)))

    return ALGORITHMS["fedavg"]()._replace(name="damped", local_gradient=local_gradient)


def test_a_hyperparameter_called_mu_does_not_make_an_algorithm_fedprox(
    finished, tmp_path, monkeypatch
):
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    monkeypatch.setitem(ALGORITHMS, "damped", damped)
    own = declared.algorithms()["fedavg"]._replace(local_bound=None, server_bound=None)
    found = {**declared.algorithms(), "damped": own}
    monkeypatch.setattr(student_bounds, "algorithms", lambda: found)
    run = next(r for r in CELLS[CORE] if r.algorithm == "fedprox")
    run = run._replace(algorithm="damped", value="mu=1", hyperparameters=(("mu", 1.0),))
    train(tmp_path, settings(CORE, [run], codes={"damped": "c"}))
    row = frame(tmp_path, CORE, "student_runs").iloc[0]
    assert row["local_phase"] == "generic"
    # And nothing is certified of an algorithm that names no bound.
    rounds = frame(tmp_path, CORE, "student_rounds")
    assert rounds[["local_bound", "server_bound"]].isna().all().all()
    # Its own rule: half the gradient moves half as far in the first steps, or less.
    moved = frame(tmp_path, CORE, "student_rounds").query("round == 0")["displacement_max"].item()
    plain = frame(finished, CORE, "student_rounds")
    plain = plain.query("algorithm == 'fedavg' and round == 0 and local_steps == @run.local_steps"
                        " and clients == @run.clients and partition == @run.partition")  # fmt: skip
    assert moved < 0.7 * plain["displacement_max"].item()


def test_divergence_is_a_row(finished, tmp_path):
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    train(tmp_path, settings(CORE, CELLS[CORE][:1], lr=1e38))
    row = frame(tmp_path, CORE, "student_runs").iloc[0]
    assert row["status"] == "failed"
    assert row["failed_round"] == 1
    assert row["failed_client"] == 0
    assert "non-finite" in row["failure"]
    assert row["rounds"] == 0


def test_a_violation_is_counted_and_stored(finished, tmp_path, monkeypatch):
    shutil.copytree(finished / "teachers", tmp_path / "teachers")
    real = student_bounds.reference

    def tiny(*arguments):
        return real(*arguments)._replace(radius=1e-9)

    monkeypatch.setattr(students, "reference", tiny)
    run = next(r for r in CELLS[CORE] if r.algorithm == "fedavg")
    train(tmp_path, settings(CORE, [run]))
    row = frame(tmp_path, CORE, "student_runs").iloc[0]
    assert row["violations"] == 8
    assert not row["contained"]
    stored = frame(tmp_path, CORE, "violations")
    assert set(stored["check"]) == {
        "local displacement <= local_bound", "server displacement <= server_bound",
    }  # fmt: skip


def test_tables_and_figures(finished):
    folder = finished / "student_tables"
    numbers = pd.read_parquet(folder / "numbers.parquet")
    total = numbers.query("table == 'checks' and row == 'all'").set_index("quantity")["value"]
    assert total["runs"] == sum(map(len, CELLS.values()))
    assert total["violations"] == 0
    assert total["gradient_and_displacement_checks"] == total["runs"] * (2 * 3 + 4)
    exponent = numbers.query("row == 'reference radius in E'").iloc[0]
    assert exponent["value"] == pytest.approx(1.0)
    assert exponent["paper"] == 1.0
    tv = numbers.query("table == 'figure8b' and row == 'K=4 iid sequence'").iloc[0]
    assert 0 < tv["value"] <= 0.75**2
    assert len(list(folder.glob("*.png"))) == 6
    assert "figure6a" in (folder / "summary.txt").read_text()
