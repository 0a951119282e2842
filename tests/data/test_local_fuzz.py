"""Files of any content: a record is kept, dropped and counted, or refused with file and line."""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedscan.data.records import Record
from fedscan.data.sources import local

fuzzing = settings(max_examples=150, deadline=None)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
names = st.sampled_from(["RedPajamaC4", "RedPajamaGithub", "RedPajamaBook", "Unknown", "", 7, None])
metas = st.dictionaries(st.sampled_from(["redpajama_set_name", "other"]), names | json_like)
records = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=20) | json_like,
        "meta": metas | metas.map(json.dumps) | json_like,
    },
)
PACK = {
    "jsonl": lambda data: data,
    "jsonl.gz": gzip.compress,
    "jsonl.zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def outcome(name, data):
    """The records of a file, or the message of its refusal."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(data)
        try:
            found = list(local.records([], 0, paths=[str(file)]))
        except ValueError as error:
            found = str(error)
    if isinstance(found, str):
        assert found.startswith(f"{file}:")
        return found.removeprefix(f"{file}:").strip()
    for record in found:
        assert isinstance(record, Record)
        assert record.outcome
        record.text.encode("utf-8")  # what is kept can be tokenised
    return found


@fuzzing
@given(st.binary(max_size=200), st.sampled_from(sorted([*PACK, "parquet"])))
@example(b"[" * 100_000, "jsonl")
@example(b'{"text": ' + b"[" * 100_000, "jsonl")
@example(b'{"meta": "' + b"[" * 100_000 + b'"}', "jsonl")
@example(b'{"text": ' + b"9" * 5000 + b"}", "jsonl")
@example(b'{"meta": "' + b"9" * 5000 + b'"}', "jsonl")
@example(b"PAR1PAR1", "parquet")
@example(b"PAR1" + b"\xff" * 8 + b"PAR1", "parquet")
@example(b"\xfe\xff\x00{", "jsonl")
def test_random_bytes(data, suffix):
    outcome(f"x.{suffix}", data)


@fuzzing
@given(st.lists(records, max_size=4), st.sampled_from(sorted(PACK)))
def test_random_json_lines_are_counted_or_refused_by_line(found, suffix):
    text = "\n".join(json.dumps(record) for record in found)
    ended = outcome(f"x.{suffix}", PACK[suffix](text.encode("utf-8", "surrogatepass")))
    if isinstance(ended, str):
        line = int(ended.split(":")[0])
        assert 1 <= line <= len(found)
    else:
        assert len(ended) == len(found)


def damaged(data):
    """Every truncation, and every byte flipped."""
    yield from (data[:length] for length in range(len(data)))
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


LINE = json.dumps({"text": "a text", "meta": {"redpajama_set_name": "RedPajamaC4"}}).encode()


@pytest.mark.parametrize("suffix", ["jsonl.gz", "jsonl.zst"])
def test_a_compressed_file_cut_anywhere_is_refused(suffix):
    packed = PACK[suffix](LINE + b"\n" + LINE)
    whole = outcome(f"x.{suffix}", packed)
    assert len(whole) == 2
    for length in range(1, len(packed)):
        ended = outcome(f"x.{suffix}", packed[:length])
        assert isinstance(ended, str), length
        assert "truncated" in ended or "not valid" in ended, ended


@pytest.mark.parametrize("suffix", sorted(PACK))
def test_a_file_damaged_anywhere_never_crashes(suffix):
    for data in damaged(PACK[suffix](LINE + b"\n" + LINE)):
        outcome(f"x.{suffix}", data)


def test_a_parquet_file_damaged_anywhere_never_crashes(tmp_path):
    rows = [{"text": f"text {i}", "meta": {"redpajama_set_name": "RedPajamaC4"}} for i in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet", compression="zstd")
    whole = (tmp_path / "x.parquet").read_bytes()
    assert len(outcome("x.parquet", whole)) == 3
    for length in range(len(whole)):
        assert isinstance(outcome("x.parquet", whole[:length]), str), length
    for data in damaged(whole):
        outcome("x.parquet", data)
