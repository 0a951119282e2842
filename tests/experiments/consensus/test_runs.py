"""Stage consensus_runs: every kept model, the initial ones as control, failures and skips."""

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.comparison import models as kept
from fedscan.experiments.comparison.rows import Record
from fedscan.experiments.consensus import runs
from fedscan.experiments.consensus.ends import end_rows
from fedscan.experiments.consensus.loading import Loaded, digest, subject, with_params
from fedscan.experiments.consensus.starts import uniform_ids
from fedscan.experiments.consensus.variants import ALL_LAYERS, Iteration
from fedscan.federated.local_phase import Diverged
from tests.experiments import tiny as federated
from tests.experiments.consensus import made
from tests.experiments.consensus.conftest import train


def table(results):
    return pd.read_parquet(results / "consensus/runs/study=main/consensus_runs.parquet")


def test_every_run_and_the_initial_model(whole):
    rows = table(whole)
    assert len(rows) == (6 + 1) * 2 * 2  # models, variants, depths
    assert set(rows["applied"]) == {1, 12}
    initial = rows[rows["kind"] == "initial"]
    assert initial["subject"].unique().tolist() == ["initial backbone=mamba2 depth=1 seed=0"]
    assert initial["algorithm"].isna().all()
    assert (initial["round"] == 0).all()
    trained = rows[rows["kind"] == "run"]
    assert (trained["round"] == 4).all()
    assert trained.groupby("algorithm")["value"].nunique().to_dict() == {"fedavg": 1, "fedprox": 2}
    assert trained["val_ppl_last10"].notna().all()
    assert (rows["status"] == "completed").all()


def test_a_row_is_the_mean_over_draws(whole):
    path = "algorithm=fedprox/beta=1"
    model = kept.read(kept.file(whole / "federated" / path, "mu=0.5", None))
    loaded = Loaded(model.shape, with_params(model.shape, model.params), "", digest(model.params))
    ids = uniform_ids(0, range(3), 6, 257)
    one = Iteration("gate", ALL_LAYERS, made.VARIANTS["gate"], {}, 0, 12)
    # All draws at once, none of them beside another: means do not depend on it.
    (first, last) = end_rows(one, subject(loaded, "float32", "cpu"), ids, [1, 12], 1)
    rows = table(whole)
    found = rows[(rows["subject"] == f"{path}/mu=0.5 round=last") & (rows["variant"] == "gate")]
    for wanted, row in zip((first, last), found.to_dict("records"), strict=True):
        for name in ("lambda1", "participation", "mean_cosine", "initial_lambda1"):
            assert row[name] == wanted[name]
    assert found["initial_lambda1"].nunique() == 1


def test_a_new_run_computes_only_itself(tmp_path, partition, monkeypatch):
    listed = train(tmp_path, partition, betas=(0.0,))
    calls, real = [], runs.end_rows

    def counted(*arguments):
        calls.append(arguments[0].name)
        return real(*arguments)

    monkeypatch.setattr(runs, "end_rows", counted)
    one = [{**entry, "values": entry["values"][:1]} for entry in listed]
    made.iterate_runs(tmp_path, one, federated.MODEL)
    assert len(calls) == (2 + 1) * 2
    calls.clear()
    path = made.iterate_runs(tmp_path, listed, federated.MODEL)
    assert len(calls) == 2  # the second value, two variants
    whole = path.read_bytes()
    path.unlink()
    made.iterate_runs(tmp_path, listed, federated.MODEL)
    assert path.read_bytes() == whole


def test_a_model_that_was_trained_again_is_looked_at_again(tmp_path, partition, monkeypatch):
    listed = train(tmp_path, partition, betas=(0.0,))
    made.iterate_runs(tmp_path, listed, federated.MODEL)
    calls, real = [], runs.end_rows

    def counted(*arguments):
        calls.append(arguments[0].name)
        return real(*arguments)

    monkeypatch.setattr(runs, "end_rows", counted)
    train(tmp_path, partition, betas=(0.0,), code="f" * 16)
    made.iterate_runs(tmp_path, listed, federated.MODEL)
    assert not calls  # other code, the same values
    longer = federated.TRAINING | {"lr": 0.02}
    train(tmp_path, partition, betas=(0.0,), training=longer)
    made.iterate_runs(tmp_path, listed, federated.MODEL)
    assert len(calls) == 3 * 2


def test_kept_rounds(tmp_path, partition):
    listed = train(tmp_path, partition, betas=(0.0,), keep_model_rounds=[2])
    listed = listed[:1]
    rows = pd.read_parquet(
        made.iterate_runs(tmp_path, listed, federated.MODEL, rounds=[0, 2, "last"])
    )
    assert sorted(rows["round"].unique()) == [0, 2, 4]
    assert rows[rows["round"] == 2]["subject"].str.endswith("round=2").all()
    with pytest.raises(
        ValueError, match=r"round=3.safetensors: no such model; set workflow.keep_m"
    ):
        made.iterate_runs(tmp_path, listed, federated.MODEL, rounds=[3])


def test_failed_trainings_and_attention_are_rows_too(tmp_path, partition):
    failing = federated.TRAINING | {"lr": 1e30}
    listed = train(tmp_path, partition, betas=(0.0,), training=failing)
    mixed = {**listed[0], "axes": listed[0]["axes"] | {"backbone": "attn0", "depth": 4}}
    rows = pd.read_parquet(made.iterate_runs(tmp_path, [*listed, mixed], federated.MODEL))
    trained = rows[rows["kind"] == "run"]
    failed = trained[trained["backbone"] == "mamba2"]
    assert (failed["status"] == "failed").all()
    assert failed["failure"].str.startswith("training failed in round").all()
    assert failed["lambda1"].isna().all()
    skipped = rows[rows["backbone"] == "attn0"]
    assert (skipped["status"] == "skipped").all()
    assert "neither gate nor interaction" in skipped["failure"].iloc[0]
    # The model they start from is there all the same.
    start = rows[(rows["kind"] == "initial") & (rows["backbone"] == "mamba2")]
    assert start["lambda1"].notna().all()


def test_sessas_layers_are_skipped_by_name(tmp_path, partition):
    listed = train(tmp_path, partition, betas=(0.0,))
    mixed = {**listed[0], "axes": listed[0]["axes"] | {"backbone": "sessa", "depth": 4}}
    rows = pd.read_parquet(made.iterate_runs(tmp_path, [*listed, mixed], federated.MODEL))
    skipped = rows[rows["backbone"] == "sessa"]
    assert (skipped["status"] == "skipped").all()
    words = "sessa layers have neither gate nor interaction term"
    assert set(skipped["failure"]) == {words}


def test_a_round_whose_perplexity_overflowed_has_no_model(tmp_path, partition, monkeypatch):
    """It is recorded, and yet the run had failed before its end."""

    def overflow(record):
        if record.rounds[-1]["round"] == 2:
            raise Diverged("validation perplexity overflow", 2, None)

    monkeypatch.setattr(Record, "require_finite_perplexity", overflow)
    listed = train(tmp_path, partition, betas=(0.0,), keep_model_rounds=[1, 2])[:1]
    rows = pd.read_parquet(made.iterate_runs(tmp_path, listed, federated.MODEL, rounds=[1, 2]))
    trained = rows[rows["kind"] == "run"]
    assert set(trained.loc[trained["round"] == 1, "status"]) == {"completed"}
    assert set(trained.loc[trained["round"] == 2, "status"]) == {"failed"}


def test_a_missing_model_names_the_key(tmp_path, partition):
    listed = train(tmp_path, partition, betas=(0.0,), keep_final_model=False)
    with pytest.raises(ValueError, match="no such model; set workflow.keep_final_model"):
        made.iterate_runs(tmp_path, listed, federated.MODEL)
    assert not (tmp_path / "consensus").exists()


def test_draws_that_fail_are_left_out_and_counted(whole, monkeypatch):
    path = whole / "federated/algorithm=fedavg/beta=0"
    model = kept.read(kept.file(path, "-", None))
    loaded = Loaded(model.shape, with_params(model.shape, model.params), "", "")
    ids = uniform_ids(0, range(3), 6, 257)
    found = subject(loaded, "float32", "cpu")
    one = Iteration("gate", ALL_LAYERS, made.VARIANTS["gate"], {}, 0, 12)
    (sound,) = end_rows(one, found, ids[:2], [12], 2)
    (bad,) = [i for i in ids[2] if i not in ids[:2]][:1]
    broken = found.embedding.clone()
    broken[bad] = float("inf")
    (row,) = end_rows(one, found._replace(embedding=broken), ids, [12], 2)
    assert (row["status"], row["draws"], row["failed_draws"]) == ("completed", 2, 1)
    assert "not finite" in row["failure"]
    np.testing.assert_allclose(row["lambda1"], sound["lambda1"])
    nothing = found._replace(embedding=torch_full(broken))
    (row,) = end_rows(one, nothing, ids, [12], 2)
    assert (row["status"], row["draws"], row["failed_draws"]) == ("failed", 0, 3)
    assert row["lambda1"] is None


def torch_full(like):
    return like.new_full(like.shape, float("nan"))
