"""The tasks' sequences: invariants recomputed from tokens, vocabularies, broken files."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedscan.data import symbol_soup
from fedscan.experiments.sessa import grid, plan
from fedscan.experiments.sessa.inputs import read_data, sequences
from fedscan.experiments.sessa.tables import EXAMPLES
from fedscan.experiments.sessa.task_soup import _spaced
from fedscan.experiments.sessa.tasks import TASKS
from fedscan.io import parquet
from fedscan.models.sequence_shape import SequenceShape
from tests.experiments.sessa import tiny

SECTION = tiny.config()["sessa"]


def rows(results, task):
    return parquet.read(f"{results}/sessa/data/task={task}/sessa_examples.parquet", EXAMPLES)


@pytest.mark.parametrize("task", TASKS)
def test_splits_have_the_sizes_asked_for(finished, task):
    section = SECTION["tasks"][task]
    frame = rows(finished, task).to_pandas()
    counts = frame.groupby(["split", "factor"]).size().to_dict()
    assert counts == {
        ("train", 1): section["train"],
        ("validation", 1): section["validation"],
        **{("test", f): section["test"] for f in section["test_factors"]},
    }
    assert (frame["tokens"].map(len) == frame["length"]).all()
    texts = frame["tokens"].map(bytes_of)
    shared = set(texts[frame["split"] == "train"]) & set(texts[frame["split"] == "test"])
    # Short made-up sequences may repeat; most do not.
    assert len(shared) <= 0.2 * len(set(texts))


def bytes_of(tokens):
    return np.array(tokens).tobytes()


@pytest.mark.parametrize("task", TASKS)
def test_the_vocabulary_is_that_of_the_plan(finished, task):
    shape = grid.shape(SECTION, task, "sessa", grid.widths(SECTION, task)[-1])
    data = read_data(Path(finished, f"sessa/data/task={task}/sessa_examples.parquet"), shape)
    assert data.vocabulary.size == shape.vocab_size
    frame = rows(finished, task).to_pandas()
    answers = np.concatenate(frame["answers"].to_list())
    assert data.vocabulary.first_answer <= answers.min()
    assert answers.max() <= data.vocabulary.last_answer


def test_soup_is_balanced_and_says_what_it_is_made_of(finished):
    frame = rows(finished, "soup").to_pandas()
    assert (
        frame.groupby(["split", "factor", "label"])
        .size()
        .groupby(level=[0, 1])
        .nunique()
        .eq(1)
        .all()
    )
    for row in frame.to_dict("records"):
        assert row["tokens"][-1] == symbol_soup.LABEL
        assert list(row["places"]) == [row["length"] - 1]
        assert list(row["answers"]) == [symbol_soup.FIRST_CLASS + row["label"]]
        assert row["source"] == f"left {row['label'] // 2}"
    assert frame[frame["split"] == "train"]["ceiling_correct"].isna().all()
    # The best rule is right far more often than one in four.
    assert frame["ceiling_correct"].dropna().astype(float).mean() > 0.45


def test_published_separators_have_the_published_length():
    for letters in (9, 20):
        found = symbol_soup.soup(1, 2, 2, letters, 0.25, np.random.default_rng(0))
        spaced = _spaced(found.tokens, 30)
        assert len(spaced) == 2 * letters + 13
        assert [t for t in spaced if t < 30] == found.tokens.tolist()


def test_mqar_lags_are_recomputed(finished):
    section = SECTION["tasks"]["mqar"]
    low, high = section["lag"]
    for row in rows(finished, "mqar").to_pylist():
        tokens = row["tokens"]
        for place, answer, lag in zip(row["places"], row["answers"], row["lags"], strict=True):
            assert tokens[place + 1] == answer
            # What is stored that far back is the answer, behind the same key.
            assert tokens[place - lag] == answer
            assert tokens[place - lag - 3 : place - lag - 1] == tokens[place - 2 : place]
            assert row["factor"] * low <= lag <= row["factor"] * high
        assert (row["lag_min"], row["lag_max"]) == (min(row["lags"]), max(row["lags"]))


def test_recall_asks_every_pair(finished):
    for row in rows(finished, "recall").to_pylist():
        assert len(row["answers"]) == row["pairs"]
        for place, answer, lag in zip(row["places"], row["answers"], row["lags"], strict=True):
            assert row["tokens"][place - lag] == answer
            assert row["tokens"][place - lag - 1] == row["tokens"][place]
    assert {row["pairs"] for row in rows(finished, "recall").to_pylist()} == {2, 3}


def test_stories_predict_every_next_byte(finished):
    for row in rows(finished, "stories").to_pylist():
        assert row["answers"] == row["tokens"][1:]
        assert row["text_bytes"] == sum(token < 256 for token in row["answers"])
        assert row["source"] in ("farm", "sea", "town")


def test_the_same_settings_give_the_same_bytes(finished, tmp_path):
    for task in ("mqar", "stories"):
        tiny.data(tmp_path, task)
        name = f"sessa/data/task={task}"
        assert tiny.bytes_of(tmp_path / name) == tiny.bytes_of(Path(finished, name))


def test_a_trained_tokenizer_is_kept_beside_its_data(tmp_path):
    changes = {"tasks": {"stories": {"tokenizer": "bpe", "vocab_size": 300}}}
    tiny.data(tmp_path, "stories", **changes)
    known = json.loads((tmp_path / "sessa/data/task=stories/vocabulary.json").read_text())
    assert (known["name"], known["size"]) == ("bpe", 300)
    assert json.loads(known["description"])["model"]["type"] == "BPE"
    folder = tiny.training(tmp_path, "stories", "sessa", **changes)
    frame = parquet.read_frame(folder / "sessa_accuracy.parquet", tiny.stage("tables").ACCURACY)
    whole = frame[frame["group"] == "all"]
    # Fewer tokens than bytes: bits per byte are not nats per token over log 2.
    assert (whole["bits_per_byte"] < whole["loss"] / np.log(2)).all()


def test_too_few_stories_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("A short story.")
    local = {"train": str(tmp_path / "a.txt"), "test": str(tmp_path / "a.txt"), "origin": None}
    with pytest.raises(ValueError, match=r"sessa.tasks.stories.*split 'train': 0 sequences of 24"):
        tiny.data(tmp_path, "stories", tasks={"stories": {"source": "local", "local": local}})


SHAPE = SequenceShape("sessa", 25, 16, 1, 2, 2, "authors", 0.9, 8, 8, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda known: known.update(size=26), "not what sessa_examples.parquet was made with"),
        (lambda known: known.pop("name"), "damaged or missing"),
        (None, "damaged or missing"),
    ],
)
def test_data_of_another_vocabulary_are_refused(copy, change, message):
    path = copy / "sessa/data/task=soup/vocabulary.json"
    if change is None:
        path.unlink()
    else:
        known = json.loads(path.read_text())
        change(known)
        path.write_text(json.dumps(known))
    with pytest.raises(ValueError, match=message):
        read_data(path.with_name("sessa_examples.parquet"), SHAPE)


def test_a_model_with_too_few_rows_is_refused(finished):
    file = finished / "sessa/data/task=soup/sessa_examples.parquet"
    with pytest.raises(ValueError, match="25 ids, and the model has 24"):
        read_data(file, SHAPE._replace(vocab_size=24))


def test_answers_are_placed(finished):
    found = rows(finished, "mqar").to_pylist()[:5]
    for row, answers in zip(found, sequences(found).answers, strict=True):
        assert np.flatnonzero(answers >= 0).tolist() == row["places"]
        assert answers[answers >= 0].tolist() == row["answers"]


def test_only_a_sources_own_keys_are_tracked():
    plain = plan.sessa_data(tiny.config(), "stories")
    moved = tiny.config(tasks={"stories": {"huggingface": {"repo": "elsewhere"}}})
    assert plan.sessa_data(moved, "stories") == plain
    wider = tiny.config(tasks={"recall": {"widths": [8]}})
    assert plan.sessa_data(wider, "recall") == plan.sessa_data(tiny.config(), "recall")
