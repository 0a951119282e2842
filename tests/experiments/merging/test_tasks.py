"""Examples of tasks are deterministic and fit the vocabulary."""

import pytest

from fedscan.experiments.merging import base as merging_base
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


def test_an_error_of_the_library_is_said_with_the_key_it_goes_back_to(tmp_path):
    files = {"trec": {"train": str(tmp_path / "a.csv"), "evaluation": str(tmp_path / "b.csv")}}
    base = {"origin": "nowhere", "precision": "float32", "tokenizer": {"name": "bytes"}}
    for stage, settings, said in (
        (task_data, tiny.data_settings("trec", "train", 0, reserved_tokens=1),
         r"^merging\.max_tokens, merging\.reserved_tokens: trec: .* 1 are reserved"),
        (task_data, tiny.data_settings("trec", "train", 0, max_tokens=37),
         r"^merging\.max_tokens, merging\.reserved_tokens: trec: .* at most 37, 36 of them"),
        (task_data, tiny.data_settings("trec", "train", 0, source="local", own=files),
         r"^merging\.local: .*a\.csv: no such file"),
        (merging_base, base, r"^merging\.bases \(a folder, .*\): 'nowhere' is no folder"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            jobs.run(stage, settings, tmp_path)
