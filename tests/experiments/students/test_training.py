"""Federated learners on a small dataset: rows, bounds, resuming, independence of the job."""

import shutil

import numpy as np
import pandas as pd
import pytest

from fedscan import declared
from fedscan.experiments.students import bounds as student_bounds
from fedscan.experiments.students import training as students
from fedscan.experiments.students.grid import StudentRun
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.io import atomic
from tests.experiments.students.made import (
    ALL,
    CELLS,
    CORE,
    OTHER,
    contents,
    damped,
    frame,
    settings,
    train,
)


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
