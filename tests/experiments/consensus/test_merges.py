"""Stage consensus_merging: bases, specialists and merges, made as merging makes them."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

from fedscan.experiments.consensus import merges
from fedscan.experiments.merging.numbers import select
from fedscan.experiments.merging.tables import SPECIALISTS
from fedscan.io import parquet
from fedscan.operators import OPERATORS
from fedscan.operators.direction import merge
from fedscan.pipeline.model_files import TensorFile, read_base
from tests.experiments.consensus import made


def table(results):
    return pd.read_parquet(results / "consensus/merging/consensus_merges.parquet")


def test_every_model_of_a_base(whole):
    rows = table(whole)
    kinds = rows.groupby("kind")["subject"].nunique().to_dict()
    assert kinds == {
        "base": 1, "specialist": 2, "average": 1, "best_task_arithmetic": 1, "best_ties": 1,
    }  # fmt: skip
    assert len(rows) == 6 * 2 * 2
    assert (rows["status"] == "completed").all()
    assert rows[rows["kind"] == "best_ties"]["density"].notna().all()
    assert rows[rows["kind"] == "base"]["seed"].isna().all()


def test_a_merge_is_the_one_that_scores_best(whole, monkeypatch, tmp_path):
    copied = Path(shutil.copytree(whole / "merging", tmp_path / "merging"))
    made_models = {}
    real = merges._wide

    def noted(params):
        made_models[len(made_models)] = params
        return real(params)

    monkeypatch.setattr(merges, "_wide", noted)
    made.iterate_merges(tmp_path, variants={"gate": made.VARIANTS["gate"]})
    _shape, base = read_base(copied / "bases/base=tiny")
    rows = pd.read_parquet(copied / "merges/base=tiny/seed=0/merges.parquet")
    own = rows[(rows["operator"] == "ties") & (rows["mu"] == 0) & (rows["epoch"] == 3)]
    best = select(own.assign(base="tiny", seed=0))
    where = "specialists/base=tiny/task={}/seed=0/models/mu=0/epoch=3.safetensors"
    experts = [TensorFile(copied / where.format(task)) for task in ("trec", "imdb")]
    direction = OPERATORS["ties"](base, experts, density=best.density)
    wanted = merge(base, direction, best.scale)
    for name, value in made_models[5].items():  # base, two specialists, average, arithmetic, TIES
        assert torch.equal(value, wanted[name])


def test_a_failed_specialist_fails_its_merges_and_no_other(whole, tmp_path):
    copied = Path(shutil.copytree(whole / "merging", tmp_path / "merging"))
    path = copied / "specialists/base=tiny/task=imdb/seed=0/specialists.parquet"
    rows = parquet.read_frame(path, SPECIALISTS)
    broken = (rows["mu"] == 0) & (rows["epoch"] == 3)
    rows.loc[broken, "status"] = "failed"
    rows.loc[broken, "failure"] = "non-finite loss in step 7"
    parquet.write(path, SPECIALISTS, rows, {})
    made.iterate_merges(tmp_path)
    found = table(tmp_path)
    status = found.groupby(["kind", found["task"].fillna("-")])["status"].first().to_dict()
    assert status["base", "-"] == "completed"
    assert status["specialist", "trec"] == "completed"
    assert status["specialist", "imdb"] == "failed"
    assert status["average", "-"] == "failed"
    failed = found[found["status"] == "failed"]
    assert (failed["failure"] == "non-finite loss in step 7").all()


def test_kept_rows(whole, tmp_path, monkeypatch):
    shutil.copytree(whole / "merging", tmp_path / "merging")
    calls, real = [], merges.end_rows

    def counted(*arguments):
        calls.append(arguments[0].name)
        return real(*arguments)

    monkeypatch.setattr(merges, "end_rows", counted)
    fewer = {"merges": ["average"], "variants": {"gate": made.VARIANTS["gate"]}}
    path = made.iterate_merges(tmp_path, **fewer)
    assert len(calls) == 4
    calls.clear()
    made.iterate_merges(tmp_path)
    assert len(calls) == 6 * 2 - 4
    assert path.read_bytes() == (whole / "consensus/merging/consensus_merges.parquet").read_bytes()


def test_a_missing_specialist_is_named(whole, tmp_path):
    copied = Path(shutil.copytree(whole / "merging", tmp_path / "merging"))
    (copied / "specialists/base=tiny/task=imdb/seed=0/models/mu=0/epoch=3.safetensors").unlink()
    with pytest.raises(ValueError, match="epoch=3.safetensors: not a whole model file"):
        made.iterate_merges(tmp_path)
    assert not (tmp_path / "consensus").exists()
