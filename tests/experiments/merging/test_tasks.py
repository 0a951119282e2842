"""Examples of tasks are deterministic and fit the vocabulary."""

import pytest

from fedscan.experiments.merging import tasks as task_data
from fedscan.io import parquet
from tests import jobs
from tests.experiments.merging import tiny
from tests.experiments.merging.made import EVALUATION, TABLES, merge


def test_examples_are_deterministic_and_evaluation_does_not_depend_on_the_seed(tmp_path):
    for name, split, seed in (("a", "train", 0), ("b", "train", 0), ("c", "train", 1)):
        jobs.run(task_data, tiny.data_settings("trec", split, seed), tmp_path / name)
    one, same, other = ((tmp_path / n / "examples.parquet").read_bytes() for n in "abc")
    assert one == same
    assert one != other
    rows = parquet.read_frame(tmp_path / "a/examples.parquet", TABLES["task_examples"])
    assert len(rows) == 24
    assert rows["label"].nunique() > 3
    assert rows["source_row"].is_unique


def test_tokens_outside_the_vocabulary_are_refused(copy):
    folder = copy / EVALUATION.format("trec")
    rows = parquet.read(folder / "examples.parquet", TABLES["task_examples"]).to_pylist()
    rows[3]["prompt"][0] = 300
    parquet.write(folder / "examples.parquet", TABLES["task_examples"], rows, {})
    with pytest.raises(ValueError, match="token id 300; the model has 264 embeddings"):
        merge(copy)
