"""The hub source against folders laid out like datasets of the hub; no network."""

import json
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from fedscan.data.records import KEPT, NO_DOMAIN, UNUSED_DOMAIN, Position, Record
from fedscan.data.sources import huggingface

NAMES = ["RedPajamaArXiv", "RedPajamaGithub", "RedPajamaC4", "RedPajamaBook"]


def as_dict(name):
    return {"redpajama_set_name": name}


def as_text(name):
    return json.dumps(as_dict(name))


def rows(count, meta=as_dict):
    return [{"text": f"text {i}", "meta": meta(NAMES[i % 4])} for i in range(count)]


def parquet_folder(folder, items, shards=3, **columns):
    (folder / "data").mkdir(parents=True)
    for shard in range(shards):
        part = [item | columns for item in items[shard * len(items) // shards :]]
        part = part[: (shard + 1) * len(items) // shards - shard * len(items) // shards]
        name = folder / f"data/train-{shard:05d}-of-{shards:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(part), name, row_group_size=7)
    return str(folder)


def read(repo, position=None, **keys):
    keys = {"revision": None, "split": "train", "retries": 2, "sleep": lambda s: None} | keys
    return huggingface.records([], 0, position, repo=repo, **keys)


def texts(stream):
    return [item.text for item in stream if isinstance(item, Record) and item.outcome == KEPT]


def kept(count):
    return [f"text {i}" for i in range(count) if i % 4 != 3]


@pytest.mark.parametrize(
    "meta",
    [as_dict, as_text],
    ids=["dict", "JSON text"],
)  # fmt: skip
def test_parquet_shards_with_meta_of_either_kind_and_an_extra_column(tmp_path, meta):
    repo = parquet_folder(tmp_path / "hub", rows(40, meta), __index_level_0__=1)
    found = list(read(repo))
    assert texts(found) == kept(40)
    assert sum(item.outcome == UNUSED_DOMAIN for item in found) == 10


def test_null_meta_is_dropped_not_fatal(tmp_path):
    items = [{"text": "a", "meta": None}, *rows(8), {"text": None, "meta": None}]
    found = list(read(parquet_folder(tmp_path / "hub", items, shards=1)))
    assert [found[0].outcome, found[-1].outcome] == [NO_DOMAIN] * 2
    assert texts(found) == kept(8)


def test_compressed_json_lines_in_chunks_as_the_original(tmp_path):
    for chunk in (1, 2):
        folder = tmp_path / f"hub/train/chunk{chunk}"
        folder.mkdir(parents=True)
        lines = "\n".join(json.dumps(row) for row in rows(8))
        data = zstandard.ZstdCompressor().compress(lines.encode())
        (folder / "example_train_0.jsonl.zst").write_bytes(data)
    assert texts(read(str(tmp_path / "hub"))) == kept(8) * 2


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_stream_goes_on_from_any_position(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(huggingface, "POSITION_EVERY", 6)
    repo = parquet_folder(tmp_path / "hub", rows(40))
    whole = [item for item in read(repo) if isinstance(item, Record)]
    before, position, seen = [], None, 0
    for item in read(repo):
        if isinstance(item, Position):
            seen += 1
            if seen == cut:
                position = item.state
                break
        else:
            before.append(item)
    assert len(before) == 6 * cut
    position = json.loads(json.dumps(position))
    after = [item for item in read(repo, position) if isinstance(item, Record)]
    assert before + after == whole


class Breaking:
    """A stream that fails at chosen records."""

    def __init__(self, stream, failures):
        self.stream, self.failures = stream, failures

    def __iter__(self):
        for index, item in enumerate(self.stream):
            if index in self.failures:
                self.failures.remove(index)
                raise ConnectionError("reset by peer")
            yield item

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_a_broken_stream_is_taken_up_again_without_loss_or_repetition(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "POSITION_EVERY", 6)
    repo = parquet_folder(tmp_path / "hub", rows(40))
    original, failures, waits = huggingface._open, [0, 9, 3], []
    monkeypatch.setattr(huggingface, "_open", lambda *a: Breaking(original(*a), failures))
    assert texts(read(repo, sleep=waits.append)) == kept(40)
    # Each break follows records that came through, so that the wait starts anew.
    assert waits == [1.0, 1.0, 1.0]
    assert not failures


def test_a_stream_that_keeps_breaking_is_an_error(tmp_path, monkeypatch):
    repo = parquet_folder(tmp_path / "hub", rows(8))
    original, waits = huggingface._open, []
    monkeypatch.setattr(huggingface, "_open", lambda *a: Breaking(original(*a), [0]))
    with pytest.raises(ValueError, match="broke 3 times in a row .*ConnectionError: reset by peer"):
        list(read(repo, sleep=waits.append))
    assert waits == [1.0, 2.0]


def test_memory_is_flat_reading_stops_early(tmp_path):
    repo = parquet_folder(tmp_path / "hub", rows(40))
    assert len(list(islice(read(repo), 5))) == 5


def test_a_dataset_that_is_not_there_names_the_alternates():
    with pytest.raises(ValueError, match=r"data\.huggingface\.repo") as error:
        list(read("cerebras/SlimPajama-627B", revision="abc"))
    message = str(error.value)
    assert "'cerebras/SlimPajama-627B' (revision abc, split 'train') cannot be opened" in message
    assert "DKYoon/SlimPajama-6B or gmongaras/SlimPajama-627B_Reupload" in message
    assert "\n" not in message


def test_other_columns_are_named(tmp_path):
    repo = parquet_folder(tmp_path / "hub", [{"content": "x"}] * 4, shards=1)
    with pytest.raises(ValueError, match="its columns are content; expected text and meta"):
        list(read(repo))


def test_a_split_that_is_not_there(tmp_path):
    repo = parquet_folder(tmp_path / "hub", rows(4), shards=1)
    with pytest.raises(ValueError, match="split 'test'.* cannot be opened"):
        list(read(repo, split="test"))


@pytest.mark.parametrize(
    "content",
    [
        b'{"text": "a", "meta": {"redpajama_set_name": "RedPajamaC4"}}\n{"text": ',
        b"\xff\xfe broken",
    ],
    ids=["cut line", "not UTF-8"],
)
def test_damaged_json_points_to_the_source_that_names_the_line(tmp_path, content):
    folder = tmp_path / "hub/data"
    folder.mkdir(parents=True)
    (folder / "train-00000-of-00001.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r"use data\.source: local"):
        list(read(str(tmp_path / "hub")))


def test_names_that_begin_with_a_dot_or_underscore_are_left_out(tmp_path):
    repo = parquet_folder(tmp_path / "hub", rows(4), shards=1)
    (file,) = Path(repo).rglob("*.parquet")
    for name in ("._" + file.name, "_" + file.name, ".ipynb_checkpoints/" + file.name):
        other = file.parent / name
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(file.read_bytes())
    assert len([r for r in read(repo) if not isinstance(r, Position)]) == 4


def test_pointers_in_a_folder_are_named(tmp_path):
    repo = parquet_folder(tmp_path / "hub", rows(4), shards=1)
    (file,) = Path(repo).rglob("*.parquet")
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(ValueError, match=r"\.parquet: a Git LFS pointer.*git lfs pull"):
        list(read(repo))


def test_records_say_where_they_stand_also_after_a_position(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "POSITION_EVERY", 3)
    repo = parquet_folder(tmp_path / "hub", rows(8), shards=1)
    found = list(read(repo))
    places = [r.place for r in found if not isinstance(r, Position)]
    assert places == [f"{repo}: record {i} of 'train'" for i in range(1, 9)]
    position = next(r for r in found if isinstance(r, Position))
    assert [r.place for r in read(repo, position.state) if not isinstance(r, Position)] == places[
        3:
    ]
