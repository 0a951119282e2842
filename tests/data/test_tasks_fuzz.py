"""Task files of any content: records, or one line that begins with the file."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedscan.data.tasks import local
from fedscan.data.tasks.definition import definitions

fuzzing = settings(max_examples=150, deadline=None)
IMDB = definitions()["imdb"]
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
records = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=20) | json_like,
        "label": st.sampled_from(["neg", "positive", "", 1, None]) | json_like,
        "other": json_like,
    },
)


def outcome(suffix, data):
    """The records of a file, or the message of its refusal."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"x{suffix}")
        file.write_bytes(data)
        try:
            pool = local.pool(IMDB, "train", imdb={"train": str(file), "evaluation": "none"})
        except ValueError as error:
            message = str(error)
            assert message.startswith(f"{file}:")
            assert "\n" not in message
            return message
        found = [pool.get(index) for index in range(pool.size)]
    for record in found:
        record.fields["text"].encode("utf-8")
        assert record.fields["text"].strip()
        assert record.label in (0, 1)
    return found


@fuzzing
@given(st.binary(max_size=200), st.sampled_from(sorted(local.READERS)))
@example(b"", ".csv")
@example(b"\x00", ".csv")
@example(b'text,label\n"', ".csv")
@example(b"text,label\r\ra,neg\r", ".csv")
@example(b"\xef\xbb\xbf", ".jsonl")
@example(b"[" * 100_000, ".jsonl")
@example(b"PAR1PAR1", ".parquet")
def test_random_bytes(data, suffix):
    outcome(suffix, data)


@fuzzing
@given(st.lists(records, max_size=4))
def test_random_json_lines(found):
    text = "\n".join(json.dumps(record) for record in found)
    outcome(".jsonl", text.encode("utf-8", "surrogatepass"))


@fuzzing
@given(st.lists(st.lists(st.text('a,"\r\n;\x00é', max_size=6), max_size=4), max_size=4))
def test_random_csv(rows):
    lines = ["text,label", *(",".join(cells) for cells in rows)]
    outcome(".csv", "\n".join(lines).encode())


@pytest.mark.parametrize("flipped", [True, False], ids=["flipped", "cut"])
def test_a_parquet_file_damaged_anywhere_is_refused_in_one_line_or_read(tmp_path, flipped):
    table = pa.table({"text": ["a", "b"], "label": ["neg", "pos"]})
    pq.write_table(table, tmp_path / "x.parquet", write_page_checksum=True)
    whole = (tmp_path / "x.parquet").read_bytes()
    assert len(outcome(".parquet", whole)) == 2
    for place in range(len(whole)):
        data = whole[:place]
        if flipped:
            data += bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        outcome(".parquet", data)
