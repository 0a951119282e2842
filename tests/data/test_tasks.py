"""Tasks: definitions, sources, prompts, and every refusal."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.data.prompts import choose, encode_prompt, label_ids, layout
from fedscan.data.tasks import TASK_SOURCES, local
from fedscan.data.tasks.definition import Pool, definitions, label_of
from fedscan.data.tokenizers import TOKENIZERS

BYTES, GPT2 = TOKENIZERS["bytes"](), TOKENIZERS["gpt2"]()
SIZES = {"train_pool": 280, "evaluation_pool": 140}
TREC, DBPEDIA, IMDB = (definitions()[name] for name in ("trec", "dbpedia_14", "imdb"))


def test_the_four_tasks_are_the_papers():
    found = {name: [label.word for label in task.labels] for name, task in definitions().items()}
    assert list(found) == ["ag_news", "dbpedia_14", "trec", "imdb"]
    assert found["ag_news"] == ["World", "Sports", "Business", "Tech"]
    assert len(found["dbpedia_14"]) == 14
    assert found["trec"] == [
        "Description", "Entity", "Abbreviation", "Person", "Location", "Number",
    ]  # fmt: skip
    assert found["imdb"] == ["negative", "positive"]


@pytest.mark.parametrize("name", definitions())
def test_every_task_fits_the_papers_budget_with_gpt2(name):
    task = definitions()[name]
    room = layout(task, GPT2.encode, 256, 16)
    fields = dict.fromkeys(task.fields, "word " * 400)
    prompt = encode_prompt(task, fields, GPT2.encode, room)
    assert prompt.truncated
    assert len(prompt.ids) == 240 + len(room.tail)
    longest = max(map(len, label_ids(task, GPT2.encode)))
    assert len(prompt.ids) + longest <= 256
    text = GPT2.decode(prompt.ids)
    assert text.startswith(task.pieces[0][0])
    assert text.endswith(task.tail)


def test_a_prompt_that_fits_is_the_template_exactly():
    room = layout(DBPEDIA, BYTES.encode, 96, 36)
    prompt = encode_prompt(DBPEDIA, {"title": "Ab", "content": "Cd ef"}, BYTES.encode, room)
    assert BYTES.decode(prompt.ids) == "Title: Ab\nText: Cd ef\nCategory:"
    assert not prompt.truncated
    assert BYTES.decode(label_ids(DBPEDIA, BYTES.encode)[4]) == " Office Holder"


def test_the_last_field_is_cut_first_and_no_literal_ever():
    room = layout(DBPEDIA, BYTES.encode, 66, 36)
    cut = encode_prompt(DBPEDIA, {"title": "T" * 8, "content": "c" * 99}, BYTES.encode, room)
    assert BYTES.decode(cut.ids) == "Title: TTTTTTTT\nText: cccccccc\nCategory:"
    cut = encode_prompt(DBPEDIA, {"title": "T" * 99, "content": "c" * 99}, BYTES.encode, room)
    assert BYTES.decode(cut.ids) == f"Title: {'T' * 17}\nText:\nCategory:"


@pytest.mark.parametrize("tokenizer", [BYTES, GPT2], ids=["bytes", "gpt2"])
@pytest.mark.parametrize("sizes", [(1, 1), (9, 400), (400, 9), (400, 400), (60, 1)])
def test_a_prompt_is_the_same_if_only_the_first_tokens_of_its_fields_are_read(tokenizer, sizes):
    room = layout(DBPEDIA, tokenizer.encode, 66, 36)
    fields = {"title": "A title " * sizes[0], "content": "Some content, " * sizes[1]}
    whole = encode_prompt(DBPEDIA, fields, tokenizer.encode, room)
    short = encode_prompt(DBPEDIA, fields, lambda text: tokenizer.head(text, 66), room)
    assert whole.ids.tolist() == short.ids.tolist()
    assert whole.truncated == short.truncated


def test_a_budget_without_room_is_refused():
    with pytest.raises(ValueError, match=r"tail and its longest label take 34 .*; 20 are reserved"):
        layout(DBPEDIA, BYTES.encode, 96, 20)
    with pytest.raises(ValueError, match="dbpedia_14: the template takes 12 of the 4 tokens"):
        layout(DBPEDIA, BYTES.encode, 40, 36)


def test_labels_without_tokens_or_of_equal_tokens_are_refused():
    empty = TREC._replace(labels=(TREC.labels[0], TREC.labels[1]._replace(word=" ")))
    with pytest.raises(ValueError, match="label ' ' has no tokens"):
        label_ids(empty, BYTES.encode)
    twice = TREC._replace(labels=(TREC.labels[0], TREC.labels[0]))
    with pytest.raises(ValueError, match="'Description' has the tokens of another label"):
        label_ids(twice, BYTES.encode)


def test_a_choice_is_shuffled_before_it_is_cut():
    pool = TASK_SOURCES["synthetic"](IMDB, "train", **SIZES)
    labels = [pool.get(i).label for i in range(pool.size)]
    assert labels == sorted(labels)  # like IMDB's own files
    chosen = [pool.get(int(i)).label for i in choose(pool, 40, 0, "imdb", "train")]
    assert 10 < sum(chosen) < 30
    assert len(set(choose(pool, 280, 0, "imdb", "train"))) == 280
    assert (
        choose(pool, 40, 0, "imdb", "train").tolist()
        != choose(pool, 40, 1, "imdb", "train").tolist()
    )
    assert len(choose(Pool(3, pool.get, ""), 40, 0, "imdb", "train")) == 3


@pytest.mark.parametrize("name", definitions())
def test_synthetic_tasks_are_balanced_reproducible_and_speak_of_their_class(name):
    task = definitions()[name]
    train = TASK_SOURCES["synthetic"](task, "train", **SIZES)
    examples = [train.get(i) for i in range(train.size)]
    assert examples == [
        TASK_SOURCES["synthetic"](task, "train", **SIZES).get(i) for i in range(280)
    ]
    counts = np.bincount([e.label for e in examples], minlength=len(task.labels))
    assert counts.max() - counts.min() <= 1
    assert all(set(e.fields) == set(task.fields) and all(e.fields.values()) for e in examples)
    # Naive Bayes on words: far above chance, and not perfect.
    held = TASK_SOURCES["synthetic"](task, "evaluation", **SIZES)
    accuracy = naive_bayes(task, examples, [held.get(i) for i in range(held.size)])
    assert 1.5 / len(task.labels) < accuracy < 0.99
    assert accuracy > 0.6


def naive_bayes(task, train, held):
    def words(example):
        return " ".join(example.fields.values()).split()

    vocabulary = {w: i for i, w in enumerate(sorted({w for e in train for w in words(e)}))}
    counts = np.full((len(task.labels), len(vocabulary)), 0.5)
    for example in train:
        for word in words(example):
            counts[example.label, vocabulary[word]] += 1
    logs = np.log(counts / counts.sum(1, keepdims=True))
    right = 0
    for example in held:
        ids = [vocabulary[w] for w in words(example) if w in vocabulary]
        right += int(logs[:, ids].sum(1).argmax()) == example.label
    return right / len(held)


ROWS = [{"text": "Who was it?", "label": "HUM"}, {"text": "How many?", "label": "Number"}]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def write(folder, suffix, rows):
    file = folder / f"train{suffix}"
    if suffix == ".csv":
        pd.DataFrame(rows).to_csv(file, index=False)
    elif suffix == ".jsonl":
        file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    else:
        pd.DataFrame(rows).to_parquet(file)
    return file


def read(file, task=TREC):
    return local.pool(task, "train", **{task.name: {"train": str(file), "evaluation": "none"}})


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_local_files_by_word_or_name_in_any_case(tmp_path, suffix):
    pool = read(write(tmp_path, suffix, [*ROWS, {"text": " x ", "label": "person"}]))
    assert [pool.get(i).label for i in range(pool.size)] == [3, 5, 3]
    assert pool.get(2).fields == {"text": "x"}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a"}], "no column 'label'; its columns: text; trec needs text, label"),
        ([{"label": "HUM"}], "no column 'text'"),
        ([*ROWS, {"text": "a", "label": "Animal"}], "label 'Animal' is not one of trec's: 'Desc"),
        ([*ROWS, {"text": "  ", "label": "HUM"}], "field 'text' is empty"),
    ],
)
def test_bad_local_records_name_file_row_and_what_is_right(tmp_path, suffix, rows, message):
    file = write(tmp_path, suffix, rows)
    with pytest.raises(ValueError, match=message) as error:
        read(file)
    assert str(error.value).startswith(f"{file}:")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.jsonl", '{"text": "a", "label": "HUM"}\nnot json\n', r":2: not JSON"),
        ("train.jsonl", "[1]\n", r":1: expected an object, found list"),
        ("train.jsonl", '{"text": ' + "[" * 100000, r":1: not usable JSON"),
        ("train.jsonl", '{"text": ' + "1" * 5000 + "}", r":1: not usable JSON"),
        ("train.jsonl", '{"text": "a \\ud800", "label": "HUM"}', r":1: .*half a surrogate pair"),
        ("train.jsonl", "", "no records"),
        ("train.csv", 'text,label\n"a,HUM\n', "after line 2: not usable CSV"),
        ("train.csv", "text,label\na,HUM,extra\n", r":2: more cells than the header has: 3, not 2"),
        ("train.csv", "text,label\na,HUM\nb\n", r":3: fewer cells than the header has: 1, not 2"),
        ("train.csv", "\nWhy,HUM\n", r":2: no column 'text'; its columns: Why, HUM; trec needs"),
        ("train.csv", "\n\n", "no records"),
        ("train.csv", "text,label,text\na,HUM,b\n", r":1: column 'text' stands there 2 times"),
        ("train.csv", "text;label\na;HUM\n", r":1: no column 'text'; its columns: text;label"),
        (
            "train.jsonl",
            '{"text": "a", "label": "HUM", "label": "DESC"}',
            r":1: .*'label' stands .* 2",
        ),
        ("train.jsonl", '{"text": "a", "label": null}', r":1: label None is not one of trec's"),
        ("train.csv", POINTER, r"train\.csv: a Git LFS pointer.*git lfs pull"),
        ("train.jsonl", POINTER, r"train\.jsonl: a Git LFS pointer.*git lfs pull"),
        ("train.parquet", POINTER, r"train\.parquet: a Git LFS pointer.*git lfs pull"),
        ("train.parquet", "PAR1", "not a whole Parquet file"),
        ("train.txt", "", "expected a .csv, .jsonl, .parquet file"),
    ],
)
def test_damaged_local_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path, suffix):
    file = write(tmp_path, suffix, [*ROWS, {"text": "caf@", "label": "HUM"}])
    line = 4 if suffix == ".csv" else 3
    file.write_bytes(file.read_bytes().replace(b"@", b"\xe9"))
    with pytest.raises(ValueError, match=rf"train\{suffix}:{line}: not UTF-8"):
        read(file)


def test_marks_and_blank_lines_are_fine_in_json_lines(tmp_path):
    rows = [{"text": "a", "label": "HUM", "n": 1}, {"text": "b\r\n,c\0d", "label": "Number"}]
    content = "\ufeff" + "\r\n\r\n".join(json.dumps(row) for row in rows)
    (tmp_path / "a.jsonl").write_bytes(content.encode())
    pool = read(tmp_path / "a.jsonl")
    assert [pool.get(i).fields["text"] for i in (0, 1)] == ["a", "b\r\n,c\0d"]


def test_long_cells_and_other_columns_of_equal_name_are_fine_in_csv(tmp_path):
    long = "word " * 40_000
    (tmp_path / "a.csv").write_text(f"\ufeff\n,text,label,,\n1,{long},HUM,x,y\n\n2,b,Number,,\n")
    pool = read(tmp_path / "a.csv")
    assert [len(pool.get(i).fields["text"]) for i in (0, 1)] == [len(long) - 1, 1]
    assert csv.field_size_limit() == 131072


def test_only_the_tasks_columns_of_a_parquet_file_are_read(tmp_path):
    damaged = "odd" * 99
    table = pa.table(
        {"text": ["a"], "x": [damaged], "label": pa.array(["HUM"]).dictionary_encode()}
    )
    file = tmp_path / "train.parquet"
    pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)
    file.write_bytes(file.read_bytes().replace(damaged.encode(), b"\xff" * len(damaged)))
    assert read(file).get(0) == ({"text": "a"}, 3)


def numbered(file, names, labels):
    features = {"label": {"names": names, "_type": "ClassLabel"}, "text": {"_type": "Value"}}
    table = pa.table({"text": ["a"] * len(labels), "label": labels})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file


def test_class_names_in_a_parquet_file_are_used(tmp_path):
    file = numbered(tmp_path / "train.parquet", ["pos", "neg"], [0, 1, 0])
    pool = read(file, IMDB)
    assert [IMDB.labels[pool.get(i).label].name for i in range(3)] == ["pos", "neg", "pos"]
    for labels, message in (([2], r":1: label 2 is not one of 0\.\.1"), ([None], "label None")):
        with pytest.raises(ValueError, match=message):
            read(numbered(tmp_path / "train.parquet", ["pos", "neg"], labels), IMDB)
    with pytest.raises(ValueError, match=r":1: label 'good' is not one of imdb's"):
        read(numbered(tmp_path / "train.parquet", ["good", "bad"], [0]), IMDB)
    for names in (None, [], [1, 2]):
        with pytest.raises(ValueError, match="label 0 is not one of imdb's"):
            read(numbered(tmp_path / "train.parquet", names, [0]), IMDB)


def test_class_names_that_the_datasets_library_wrote_are_used(tmp_path):
    hub_copy(tmp_path, IMDB, pd.DataFrame({"text": ["b", "g"], "label": [1, 0]}), ["pos", "neg"])
    (file,) = tmp_path.rglob("*.parquet")
    pool = read(file, IMDB)
    assert [IMDB.labels[pool.get(i).label].name for i in (0, 1)] == ["neg", "pos"]


@pytest.mark.parametrize("how", ["same", "symlink", "hard link", "copy", "dots"])
def test_one_file_as_training_and_evaluation_set_is_refused(tmp_path, how):
    file = write(tmp_path, ".csv", ROWS)
    other = tmp_path / "evaluation.csv"
    if how == "same":
        other = file
    elif how == "symlink":
        other.symlink_to(file.name)
    elif how == "hard link":
        other.hardlink_to(file)
    elif how == "copy":
        other.write_bytes(file.read_bytes())
    else:
        other = tmp_path / ".." / tmp_path.name / file.name
    files = {"trec": {"train": str(file), "evaluation": str(other)}}
    for split in ("train", "evaluation"):
        with pytest.raises(ValueError, match="the same records as .*: training and evaluation"):
            local.pool(TREC, split, **files)


def test_pointers_in_a_copy_of_a_hub_dataset_are_named(tmp_path):
    hub_copy(tmp_path, IMDB, pd.DataFrame({"text": ["a"], "label": [0]}), ["neg", "pos"])
    (file,) = tmp_path.rglob("*.parquet")
    file.write_text(POINTER)
    with pytest.raises(ValueError, match=r"of-00001\.parquet: a Git LFS pointer.*git lfs pull"):
        hub(IMDB, tmp_path)


def test_a_missing_local_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="no such file; it is to hold trec's train records"):
        read(tmp_path / "absent.csv")


@pytest.mark.parametrize("value", [3, 3.0, True, None, "3"])
def test_numbers_are_no_labels(value):
    with pytest.raises(ValueError, match="is not one of trec's"):
        label_of(TREC, value)


def hub_copy(folder, task, frame, names=None):
    from datasets import ClassLabel, Dataset

    table = Dataset.from_pandas(frame)
    if names:
        table = table.cast_column(task.hub.label, ClassLabel(names=names))
    place = folder / task.hub.repo / "data"
    place.mkdir(parents=True)
    table.to_parquet(str(place / "train-00000-of-00001.parquet"))


def hub(task, folder, split="train"):
    return TASK_SOURCES["huggingface"](task, split, folder=str(folder))


def test_trec_is_mapped_by_its_string_not_its_number(tmp_path):
    frame = pd.DataFrame(
        {"text": ["Why?", "Who?"], "label_coarse_original": ["DESC", "HUM"], "label_coarse": [0, 3]}
    )
    hub_copy(tmp_path, TREC, frame)
    pool = hub(TREC, tmp_path)
    assert [(pool.get(i).fields["text"], pool.get(i).label) for i in (0, 1)] == [
        ("Why?", 0),
        ("Who?", 3),
    ]


def test_numbers_of_a_dataset_are_read_by_its_own_names(tmp_path):
    frame = pd.DataFrame({"text": ["bad", "good"], "label": [1, 0]})
    hub_copy(tmp_path, IMDB, frame, names=["pos", "neg"])
    assert [hub(IMDB, tmp_path).get(i).label for i in (0, 1)] == [0, 1]


def test_dbpedia_has_two_fields(tmp_path):
    names = [label.name for label in DBPEDIA.labels]
    frame = pd.DataFrame({"title": ["A"], "content": [" b "], "label": [13]})
    hub_copy(tmp_path, DBPEDIA, frame, names=names)
    assert hub(DBPEDIA, tmp_path).get(0) == ({"title": "A", "content": "b"}, 13)


def test_what_is_wrong_with_a_dataset_is_named(tmp_path):
    frame = pd.DataFrame({"text": ["x"], "label": [0]})
    hub_copy(tmp_path / "a", IMDB, frame, names=["no", "yes"])
    with pytest.raises(ValueError, match=r"its labels are \['no', 'yes'\]; imdb has"):
        hub(IMDB, tmp_path / "a")
    hub_copy(tmp_path / "b", IMDB, frame.rename(columns={"text": "review"}))
    with pytest.raises(ValueError, match="no column 'text'; its columns: review, label"):
        hub(IMDB, tmp_path / "b")
    hub_copy(tmp_path / "c", IMDB, frame)
    with pytest.raises(ValueError, match=r"train row 0: label 0 is not one of imdb's"):
        hub(IMDB, tmp_path / "c").get(0)
    with pytest.raises(ValueError, match=r"cannot be opened.*a folder with a copy"):
        hub(IMDB, tmp_path / "d")
