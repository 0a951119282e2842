"""Federated training: clients' holdings, rounds, the guard, kills, and what is kept."""

import shutil

import pytest
import torch

from fedscan.experiments.sessa.clients import holdings, rows_of
from fedscan.experiments.sessa.federated import guarded
from fedscan.experiments.sessa.tables import FEDERATED_CLIENTS, FEDERATED_ROUNDS, FEDERATED_RUNS
from fedscan.federated.algorithm import ServerStep
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.io import parquet
from tests import jobs
from tests.experiments.sessa import tiny

SOURCES = ["a", "b", "a", "b", "a", "b", "a", "b", "c", "c", "c", "c"]


def test_clients_of_their_own_sources():
    held = holdings(SOURCES, 3, 1.0)
    assert [(h.client, h.source, len(h.rows)) for h in held] == [
        (0, "a", 4), (1, "b", 4), (2, "c", 4),
    ]  # fmt: skip
    assert all(SOURCES[row] == h.source for h in held for row in h.rows)


def test_equal_mixtures():
    held = holdings(SOURCES, 2, 0.0)
    counts = {(h.client, h.source): len(h.rows) for h in held}
    assert counts == {(c, s): 1 for c in range(2) for s in "abc"}


@pytest.mark.parametrize("beta", [0, 0.3, 0.7, 1])
@pytest.mark.parametrize("clients", [1, 2, 3, 5])
def test_no_sequence_is_held_twice(beta, clients):
    sources = SOURCES * 10
    held = holdings(sources, clients, beta)
    rows = [row for h in held for row in h.rows]
    assert len(rows) == len(set(rows))
    sizes = [len(rows_of(held, client)) for client in range(clients)]
    assert min(sizes) > 0
    assert max(sizes) - min(sizes) <= 2
    assert sorted(rows) == sorted(row for c in range(clients) for row in rows_of(held, c))


def test_too_many_clients_are_refused():
    with pytest.raises(ValueError, match="client 0 would hold no sequence: 12 of 3 sources"):
        holdings(SOURCES, 40, 1.0)


def test_the_guard_clips_gains_alone():
    algorithm = ALGORITHMS["fedavg"]()
    params = {"blocks.0.layer.gain_bias": torch.tensor([0.9]), "head.weight": torch.tensor([5.0])}
    message = {"update": {n: torch.ones(1) for n in params}}
    found = guarded(algorithm, 0.5).server_update(params, {}, message)
    assert isinstance(found, ServerStep)
    assert found.params["blocks.0.layer.gain_bias"].tolist() == [0.5]
    assert found.params["head.weight"].tolist() == [6.0]
    assert guarded(algorithm, None) is algorithm


def tables(folder):
    return [
        parquet.read_frame(folder / f"{one.name}.parquet", one)
        for one in (FEDERATED_RUNS, FEDERATED_ROUNDS, FEDERATED_CLIENTS)
    ]


def test_rows_of_a_mixer(finished):
    path = "sessa/federated/task=soup/mixer={}/algorithm=fedavg"
    runs, rounds, clients = tables(finished / path.format("sessa"))
    assert runs["gain_limit"].isna().tolist() == [True, False]
    assert (runs["status"] == "completed").all()
    assert rounds["round"].tolist() == [1, 2, 1, 2]
    last = rounds[rounds["round"] == 2]
    assert last["validation_loss"].tolist() == runs["validation_loss"].tolist()
    assert rounds["eta"].notna().all()
    assert (rounds["gain_largest"] < 1).all()
    # tanh 0.5 and what the token adds: the guard lowers the gain.
    assert rounds["gain_largest"].iloc[3] < rounds["gain_largest"].iloc[1]
    assert (rounds["gain_drift"] > 0).all()
    assert (rounds["gain_drift"] < rounds["client_drift_mean"]).all()
    assert clients.groupby("client")["source"].nunique().eq(1).all()
    _, plain, _ = tables(finished / path.format("mha"))
    assert plain[["eta", "gain_largest", "c2", "gain_drift"]].isna().all().all()


def test_a_kill_after_any_round_changes_no_byte(finished, tmp_path, monkeypatch):
    wanted = tiny.bytes_of(finished / "sessa/federated/task=soup/mixer=sessa/algorithm=fedavg")
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    folder, kills = jobs.killed_after_every_write(
        monkeypatch, lambda: tiny.federated(tmp_path, "sessa")
    )
    assert kills >= 2
    assert tiny.bytes_of(folder) == wanted


def test_runs_are_kept_and_added(copy):
    lines = []
    tiny.federated(copy, "mha", report=lines.append)
    assert all("already in the table" in line for line in lines)
    lines.clear()
    tiny.federated(copy, "mha", report=lines.append, federated={"seeds": [0, 1]})
    assert sum("already in the table" in line for line in lines) == 2
    assert sum("round 2/2" in line for line in lines) == 2


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"fedavg"}))
def test_every_algorithm_trains_sessa(finished, tmp_path, algorithm):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    values = tiny.config()["studies"]["main"]["hyperparameters"][algorithm]
    first = {name: found[:1] for name, found in (values or {}).items()}
    if algorithm == "fedalign":
        first = {"align_mamba2_heads": [1]}
    changes = {
        "algorithms": [algorithm], "hyperparameters": {algorithm: first}, "gain_limits": [None],
    }  # fmt: skip
    folder = tiny.federated(tmp_path, "sessa", algorithm, federated=changes)
    runs, rounds, _ = tables(folder)
    assert (runs["status"] == "completed").all()
    assert len(rounds) == 2


def test_a_diverging_run_is_a_failed_row(finished, tmp_path):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    changes = {"lr": 1e30, "gain_limits": [None]}
    runs, _, clients = tables(tiny.federated(tmp_path, "sessa", federated=changes))
    assert runs["status"].tolist() == ["failed"]
    assert "non-finite" in runs["failure"].iloc[0]
    assert runs["test_loss"].isna().all()
    assert len(clients) == 2


def test_stories_are_told_apart_by_theme(finished, tmp_path):
    shutil.copytree(finished / "sessa/data", tmp_path / "sessa/data")
    changes = {"tasks": ["stories"], "clients": 3, "gain_limits": [None]}
    tiny.data(tmp_path, "stories", tasks={"stories": {"train": 90}})
    folder = tiny.federated(tmp_path, "sessa", task="stories", federated=changes)
    _, _, clients = tables(folder)
    assert sorted(clients["source"]) == ["farm", "sea", "town"]
