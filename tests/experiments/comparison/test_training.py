"""Stage federated: same bytes, resumable at every round, incremental in values, failures kept."""

import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedscan.experiments.comparison import models
from fedscan.experiments.comparison import rows as run_rows
from fedscan.experiments.comparison import training as federated
from fedscan.experiments.comparison.tables import JOB_TABLES, RUNS, last_round
from fedscan.experiments.registry import tables
from fedscan.federated import engine
from fedscan.federated.local_phase import Diverged
from fedscan.io import checkpoints, parquet
from fedscan.models.architecture import Architecture, layout
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.seeds import derive
from tests import jobs
from tests.experiments import tiny
from tests.federated.conformance import SMALL

TABLES = tables()

PROX = [{"mu": 0.0}, {"mu": 0.5}]


class Killed(BaseException):
    """Stands for a kill between two statements."""


def test_repeated_runs_give_the_same_bytes_whatever_the_global_state(prepared, tmp_path):
    job = tiny.settings("fedprox", PROX)
    first = tiny.train(job, prepared, tmp_path / "a")
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002 - disturbs the global state on purpose
    random.seed(99)
    assert tiny.train(job, prepared, tmp_path / "b ö") == first


@pytest.mark.parametrize("algorithm", SMALL)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_killed_in_any_round_ends_with_the_same_bytes(
    prepared, tmp_path, monkeypatch, algorithm, moment
):
    job = tiny.settings(algorithm, [SMALL[algorithm]])
    whole = tiny.train(job, prepared, tmp_path / "whole")
    save, calls = checkpoints.save, []

    def interrupted(path, arrays, record):
        calls.append(path)
        if moment == "after":
            save(path, arrays, record)
        raise Killed

    for _ in range(3):
        # Every start gets one round further (or, killed before the write, none), then dies.
        monkeypatch.setattr(checkpoints, "save", interrupted)
        with pytest.raises(Killed):
            tiny.train(job, prepared, tmp_path / "cut")
        assert not list((tmp_path / "cut").glob("job/*.parquet"))
    monkeypatch.setattr(checkpoints, "save", save)
    lines = []

    def report(text):
        lines.append(text)

    report.advance = lambda *args: None
    assert tiny.train(job, prepared, tmp_path / "cut", report) == whole
    assert any("resuming after round 3" in line for line in lines) == (moment == "after")
    assert not (tmp_path / "cut/checkpoints").exists()


def test_sigkill_of_a_real_process(prepared, tmp_path):
    job = tiny.settings("scaffold", [tiny.SCAFFOLD], rounds=30)
    script = (
        "import json, sys\nfrom tests.experiments import tiny\n"
        f"def report(text):\n    print(text, flush=True)\n"
        "report.advance = lambda *a: None\n"
        f"tiny.train(json.loads(sys.argv[1]), {str(prepared)!r}, {str(tmp_path / 'cut')!r}, report)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(job)], stdout=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "round 4/" in line:
            process.kill()
            break
    process.wait()
    assert process.returncode == -9
    assert list((tmp_path / "cut/checkpoints").iterdir())
    assert tiny.train(job, prepared, tmp_path / "cut") == tiny.train(job, prepared, tmp_path / "w")


def test_adding_a_value_trains_only_that_value(prepared, tmp_path, monkeypatch):
    one = tiny.settings("fedprox", PROX[:1])
    tiny.train(one, prepared, tmp_path / "grow")
    trained = []
    original = engine.run

    def counting(*args, **kwargs):
        trained.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(engine, "run", counting)
    both = tiny.train(tiny.settings("fedprox", PROX), prepared, tmp_path / "grow")
    assert len(trained) == 1
    assert both == tiny.train(tiny.settings("fedprox", PROX), prepared, tmp_path / "at once")


@pytest.mark.parametrize(
    ("change", "retrained"),
    [
        ({"lr": 0.02}, True),
        ({"code": "f" * 16}, True),
        ({"code": "f" * 16, "rerun_on_code_change": False}, False),
        ({"keep_final_model": True}, False),
        ({}, False),
    ],
)
def test_what_makes_earlier_rows_invalid(prepared, tmp_path, monkeypatch, change, retrained):
    tiny.train(tiny.settings(), prepared, tmp_path)
    trained = []
    original = federated._train
    monkeypatch.setattr(federated, "_train", lambda *args: trained.append(1) or original(*args))
    training = {k: v for k, v in change.items() if k in tiny.TRAINING}
    job = tiny.settings(**training) | {k: v for k, v in change.items() if k not in training}
    tiny.train(job, prepared, tmp_path)
    assert bool(trained) == retrained


def test_a_damaged_table_is_recomputed_not_trusted(prepared, tmp_path):
    whole = tiny.train(tiny.settings(), prepared, tmp_path)
    path = tmp_path / "job/rounds.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert tiny.train(tiny.settings(), prepared, tmp_path) == whole


def test_a_checkpoint_of_another_configuration_is_not_continued(prepared, tmp_path, monkeypatch):
    save = checkpoints.save

    def interrupted(path, arrays, record):
        save(path, arrays, record)
        raise Killed

    monkeypatch.setattr(checkpoints, "save", interrupted)
    with pytest.raises(Killed):
        tiny.train(tiny.settings(lr=0.5), prepared, tmp_path / "a")
    monkeypatch.setattr(checkpoints, "save", save)
    found = tiny.train(tiny.settings(), prepared, tmp_path / "a")
    assert found == tiny.train(tiny.settings(), prepared, tmp_path / "b")


def test_a_model_in_a_checkpoints_place_is_not_continued(prepared, tmp_path):
    tiny.train(tiny.settings() | {"keep_final_model": True}, prepared, tmp_path / "a")
    (tmp_path / "b/checkpoints").mkdir(parents=True)
    shutil.copy(tmp_path / "a/job/models/none.safetensors", tmp_path / "b/checkpoints")
    lines = []

    def report(*words):
        lines.extend(words)

    report.advance = tiny.silent.advance
    tiny.train(tiny.settings(), prepared, tmp_path / "b", report)
    folder = tmp_path / "b/job"
    assert any(line.startswith("starting over: none.safetensors is not a run's") for line in lines)
    for table in JOB_TABLES:
        found = parquet.read(f"{folder}/{table.name}.parquet", table).to_pylist()
        assert found == parquet.read(tmp_path / f"a/job/{table.name}.parquet", table).to_pylist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_named(prepared, tmp_path):
    job = tiny.settings()
    job["training"] = job["training"] | {"device": "cuda"}
    with pytest.raises(ValueError, match=r"^training.device is cuda and this machine has no CUDA"):
        tiny.train(job, prepared, tmp_path)


def test_a_diverged_run_is_a_recorded_failure_with_its_rounds(prepared, tmp_path, monkeypatch):
    original = engine._round

    def broken(problem, algorithm, state, phase):
        if state.round_index == 2:
            gradient = problem.gradient

            def not_finite(params, batch, scale):
                loss, slope = gradient(params, batch, scale)
                return loss, {name: tensor * math.nan for name, tensor in slope.items()}

            problem.gradient = not_finite
        return original(problem, algorithm, state, phase)

    monkeypatch.setattr(engine, "_round", broken)
    first = tiny.train(tiny.settings(), prepared, tmp_path)
    monkeypatch.setattr(engine, "_round", original)
    (row,) = parquet.read(tmp_path / "job/runs.parquet", TABLES["runs"]).to_pylist()
    assert row["status"] == "failed"
    assert (row["failed_round"], row["failed_client"], row["rounds"]) == (3, 0, 2)
    assert row["failure"] == "non-finite gradient in local step 1 at client 0, round 3"
    assert math.isnan(row["val_ppl_last10"])
    assert parquet.read(tmp_path / "job/rounds.parquet", TABLES["rounds"]).num_rows == 2
    assert parquet.read(tmp_path / "job/clients.parquet", TABLES["clients"]).num_rows == 4
    # A failure is a result: it is kept, not replaced by another try.
    assert tiny.train(tiny.settings(), prepared, tmp_path) == first


def test_an_overflowing_perplexity_is_a_failure_with_infinity_in_its_row(
    prepared, tmp_path, monkeypatch
):
    from fedscan.problems.language_model import LanguageModelProblem

    monkeypatch.setattr(LanguageModelProblem, "evaluate", lambda self, params: 1000.0)
    tiny.train(tiny.settings(), prepared, tmp_path)
    (row,) = parquet.read(tmp_path / "job/runs.parquet", TABLES["runs"]).to_pylist()
    assert row["failure"] == "validation perplexity overflow at server, round 1"
    assert row["failed_client"] is None
    rounds = parquet.read(tmp_path / "job/rounds.parquet", TABLES["rounds"]).to_pylist()
    assert [r["val_ppl"] for r in rounds] == [math.inf]


def test_tables_are_consistent(prepared, tmp_path):
    tiny.train(tiny.settings("scaffold", [tiny.SCAFFOLD]), prepared, tmp_path)
    runs, rounds, clients = (
        parquet.read_frame(tmp_path / f"job/{name}.parquet", TABLES[name])
        for name in ("runs", "rounds", "clients")
    )
    assert rounds["round"].tolist() == [1, 2, 3, 4]
    assert clients.groupby("round").size().tolist() == [2] * 4
    by_round = clients.groupby("round")
    np.testing.assert_allclose(by_round["train_ppl"].mean(), rounds["train_ppl"], rtol=1e-14)
    np.testing.assert_allclose(by_round["client_drift"].max(), rounds["client_drift_max"])
    np.testing.assert_allclose(np.exp(rounds["val_loss"]), rounds["val_ppl"], rtol=1e-14)
    assert runs["val_ppl_last10"][0] == pytest.approx(rounds["val_ppl"].mean(), rel=1e-14)
    assert rounds["val_ppl"].iloc[-1] < rounds["val_ppl"].iloc[0] < 300
    internals = [json.loads(text) for text in rounds["internals"]]
    norms = [row["control_norm"] for row in internals]
    assert internals[2]["control_gap"] > internals[1]["control_gap"] == 0
    assert norms[0] == 0 < norms[1] == norms[2] != norms[3]
    assert max(norms) <= 0.1 + 1e-6
    # FedAvg's server displacement is the norm of the mean update; SCAFFOLD averages the same way.
    np.testing.assert_allclose(rounds["server_displacement"], rounds["mean_update_norm"], rtol=1e-4)


def test_stability_of_every_mixer_is_recorded_every_round(prepared, tmp_path):
    tiny.train(tiny.settings(), prepared, tmp_path)
    mixers = parquet.read_frame(tmp_path / "job/mixers.parquet", TABLES["mixers"])
    heads = parquet.read_frame(tmp_path / "job/heads.parquet", TABLES["heads"])
    assert mixers["round"].tolist() == [1, 2, 3, 4]
    assert heads.groupby(["round", "layer"]).size().tolist() == [4] * 4
    ordered = heads[["decay_min", "decay_median", "decay_max"]].to_numpy()
    assert (ordered > 0).all()
    assert (ordered < 1).all()
    assert (np.diff(ordered, axis=1) >= 0).all()
    assert (mixers[[c for c in mixers if c.startswith("spectral_norm")]] > 0).all(axis=None)


def test_attention_layers_have_no_state_to_measure(prepared, tmp_path):
    job = tiny.settings()
    job["job"] |= {"backbone": "attn0", "depth": 4}
    tiny.train(job, prepared, tmp_path)
    assert parquet.read(tmp_path / "job/mixers.parquet", TABLES["mixers"]).num_rows == 0
    assert parquet.read(tmp_path / "job/runs.parquet", TABLES["runs"]).num_rows == 1


@pytest.mark.parametrize("backbone", ["sessa", "sessa_no_feedback", "hybrid50sessa"])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedalign"])
def test_sessas_backbones_train(prepared, tmp_path, backbone, algorithm):
    values = [{"align_mamba2_heads": 1}] if algorithm == "fedalign" else [{}]
    job = tiny.settings(algorithm, values) | {"keep_final_model": True}
    job["job"] |= {"backbone": backbone, "depth": 4}
    tiny.train(job, prepared, tmp_path)
    runs = parquet.read_frame(tmp_path / "job/runs.parquet", TABLES["runs"])
    assert runs["status"].tolist() == ["completed"]
    rounds = parquet.read_frame(tmp_path / "job/rounds.parquet", TABLES["rounds"])
    assert rounds["val_loss"].iloc[-1] < rounds["val_loss"].iloc[0]
    mixers = parquet.read(tmp_path / "job/mixers.parquet", TABLES["mixers"])
    # Of Mamba2 layers alone.
    assert mixers.num_rows == (8 if backbone == "hybrid50sessa" else 0)
    (file,) = (tmp_path / "job/models").glob("*.safetensors")
    kept = models.read(file)
    assert kept.shape.mixers == BACKBONES[backbone](4)


def test_hive_readers_see_the_keys_of_the_path(prepared, tmp_path):
    import pyarrow.dataset as ds

    folder = tmp_path / "federated/backbone=mamba2/beta=0.7/algorithm=fedavg/seed=0"
    os.makedirs(folder)
    jobs.run(federated, tiny.settings(), folder, scratch=tmp_path / "c", partition=prepared)
    files = [str(p) for p in (tmp_path / "federated").rglob("rounds.parquet")]
    base = str(tmp_path / "federated")
    table = ds.dataset(files, partitioning="hive", partition_base_dir=base).to_table()
    assert {"backbone", "beta", "algorithm", "seed", "val_ppl"} <= set(table.column_names)
    assert set(table["algorithm"].to_pylist()) == {"fedavg"}


def test_final_model_has_mamba_ssms_names(prepared, tmp_path):
    job = tiny.settings() | {"keep_final_model": True}
    tiny.train(job, prepared, tmp_path)
    arrays, facts = checkpoints.load(Path(tmp_path, "job/models/none.safetensors"))
    assert "backbone.layers.0.mixer.A_log" in arrays
    assert facts["round"] == 4
    assert facts["d_model"] == 16


def kept(folder):
    """Name -> bytes of the models below a job's folder."""
    models = folder / "models"
    return {str(p.relative_to(models)): p.read_bytes() for p in models.rglob("*.safetensors")}


def test_models_of_rounds_are_kept(prepared, tmp_path):
    job = tiny.settings() | {"keep_final_model": True, "keep_model_rounds": [0, 2, 4]}
    tiny.train(job, prepared, tmp_path)
    found = kept(tmp_path / "job")
    names = {f"none/round={r}.safetensors" for r in (0, 2, 4)} | {"none.safetensors"}
    assert set(found) == names
    assert found["none/round=4.safetensors"] == found["none.safetensors"]
    arrays, facts = checkpoints.load(tmp_path / "job/models/none/round=0.safetensors")
    assert facts["round"] == 0
    shape = Architecture(mixers=layout(facts["depth"]), **job["model"])
    start = initialise(shape, derive(0, "initial model"))
    for name, value in start.named_parameters():
        np.testing.assert_array_equal(arrays[name], value.detach().numpy())


def test_another_kept_round_trains_again_and_one_less_does_not(prepared, tmp_path, monkeypatch):
    tiny.train(tiny.settings() | {"keep_model_rounds": [2]}, prepared, tmp_path)
    before, trained = kept(tmp_path / "job"), []
    original = federated._train
    monkeypatch.setattr(federated, "_train", lambda *args: trained.append(1) or original(*args))
    tiny.train(tiny.settings() | {"keep_model_rounds": []}, prepared, tmp_path)
    assert not trained
    tiny.train(tiny.settings() | {"keep_model_rounds": [2, 3]}, prepared, tmp_path)
    assert len(trained) == 1
    assert kept(tmp_path / "job").items() > before.items()


def test_a_checkpoint_beyond_a_kept_round_starts_over(prepared, tmp_path, monkeypatch):
    whole = tiny.train(tiny.settings() | {"keep_model_rounds": [1]}, prepared, tmp_path / "a")
    job, folder, rounds = tiny.settings(), tmp_path / "b", []

    def stop(*_):
        rounds.append(1)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    stop.advance = tiny.silent.advance
    with pytest.raises(KeyboardInterrupt):
        tiny.train(job, prepared, folder, stop)
    lines = []

    def report(*words):
        lines.extend(words)

    report.advance = tiny.silent.advance
    found = tiny.train(job | {"keep_model_rounds": [1]}, prepared, folder, report)
    assert any("starting over: a model that is to be kept" in line for line in lines)
    assert kept(folder / "job") == kept(tmp_path / "a/job")
    for name, table in whole.items():
        assert found[name] == table


def test_a_failed_run_keeps_the_models_before_its_failure(prepared, tmp_path, monkeypatch):
    job = tiny.settings(lr=1e30) | {"keep_model_rounds": [0, 4]}
    tiny.train(job, prepared, tmp_path)
    assert set(kept(tmp_path / "job")) == {"none/round=0.safetensors"}
    trained = []
    monkeypatch.setattr(federated, "_train", lambda *args: trained.append(1))
    tiny.train(job, prepared, tmp_path)
    assert not trained


def test_a_run_that_fails_in_its_first_round_has_its_initial_model(prepared, tmp_path):
    tiny.train(tiny.settings(lr=1e30), prepared, tmp_path)
    tiny.train(tiny.settings(lr=1e30) | {"keep_model_rounds": [0, 1]}, prepared, tmp_path)
    assert set(kept(tmp_path / "job")) == {"none/round=0.safetensors"}


def test_a_round_whose_perplexity_overflows_is_recorded_and_has_no_model(
    prepared, tmp_path, monkeypatch
):
    def overflow(record):
        if record.rounds[-1]["round"] == 2:
            raise Diverged("validation perplexity overflow", 2, None)

    monkeypatch.setattr(run_rows.Record, "require_finite_perplexity", overflow)
    job = tiny.settings() | {"keep_model_rounds": [1, 2, 3]}
    tiny.train(job, prepared, tmp_path)
    (row,) = parquet.read(tmp_path / "job/runs.parquet", RUNS).to_pylist()
    assert (row["rounds"], last_round(row)) == (2, 1)
    assert set(kept(tmp_path / "job")) == {"none/round=1.safetensors"}
    trained = []
    monkeypatch.setattr(federated, "_train", lambda *args: trained.append(1))
    tiny.train(job, prepared, tmp_path)
    assert not trained


def test_a_kept_model_of_another_training_is_not_taken_for_this_ones(prepared, tmp_path):
    """A round is kept, then not, then again, and the learning rate changes in between."""
    again = tiny.settings(lr=0.02)
    tiny.train(tiny.settings() | {"keep_model_rounds": [2]}, prepared, tmp_path / "a")
    tiny.train(again, prepared, tmp_path / "a")
    tiny.train(again | {"keep_model_rounds": [2]}, prepared, tmp_path / "a")
    tiny.train(again | {"keep_model_rounds": [2]}, prepared, tmp_path / "b")
    assert kept(tmp_path / "a/job") == kept(tmp_path / "b/job")


@pytest.mark.parametrize("harm", ["cut", "deleted"])
def test_a_lost_model_is_trained_again_with_the_same_bytes(prepared, tmp_path, harm):
    job, lines = tiny.settings("fedprox", [{"mu": 0.0}, {"mu": 0.5}]), []
    job |= {"keep_model_rounds": [0, 2]}
    tiny.train(job, prepared, tmp_path)
    before = kept(tmp_path / "job")
    file = tmp_path / "job/models/mu=0.5/round=2.safetensors"
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-4])
    else:
        file.unlink()

    def report(*words):
        lines.extend(words)

    report.advance = tiny.silent.advance
    tiny.train(job, prepared, tmp_path, report)
    assert kept(tmp_path / "job") == before
    assert "mu=0: already in the tables" in lines
    assert "mu=0.5: trained again for models/mu=0.5/round=2.safetensors" in lines


def test_a_model_of_the_checkpoints_round_costs_no_training(prepared, tmp_path, monkeypatch):
    """The checkpoint holds it."""
    tiny.train(tiny.settings() | {"keep_model_rounds": [2]}, prepared, tmp_path / "whole")
    stored = []
    real = federated.run_state.store

    def store(*args):
        real(*args)
        stored.append(1)
        if len(stored) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(federated.run_state, "store", store)
        with pytest.raises(KeyboardInterrupt):
            tiny.train(tiny.settings(), prepared, tmp_path / "killed")
    monkeypatch.setattr(federated.run_state, "store", lambda *args: stored.append(real(*args)))
    tiny.train(tiny.settings() | {"keep_model_rounds": [2]}, prepared, tmp_path / "killed")
    assert len(stored) == 4  # rounds 3 and 4 alone
    assert kept(tmp_path / "killed/job") == kept(tmp_path / "whole/job")
