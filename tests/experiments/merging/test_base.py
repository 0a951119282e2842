"""The best federated model becomes a base."""

import numpy as np
import pytest

from fedscan.experiments.comparison import training as federated
from fedscan.experiments.merging import base as merging_base
from fedscan.io import checkpoints, parquet
from fedscan.labels import value_file
from fedscan.pipeline.model_files import read_base
from tests import jobs
from tests.experiments import tiny as federated_tiny
from tests.experiments.merging.made import TABLES


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
    arrays, _ = checkpoints.load(folder / "models" / value_file(best))
    assert all(np.array_equal(arrays[name], tensor.numpy()) for name, tensor in params.items())
    # A written base is a checkpoint like any other, unless it cannot read the tokens.
    again = {**base, "origin": str(tmp_path / "base")}
    jobs.run(merging_base, again, tmp_path / "again")
    same = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("base", "again")]
    assert same[0] == same[1]
    gpt2 = {**again, "tokenizer": {"name": "gpt2", "gpt2": {"folder": None}}}
    with pytest.raises(ValueError, match="its embedding has 264 rows; tokenizer 'gpt2' needs"):
        jobs.run(merging_base, gpt2, tmp_path / "x")
    (folder / "models" / value_file(best)).unlink()
    with pytest.raises(ValueError, match="no such model; set workflow.keep_final_model"):
        jobs.run(merging_base, base, tmp_path / "base", results=tmp_path)
