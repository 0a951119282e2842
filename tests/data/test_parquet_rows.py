"""Other people's Parquet files: odd columns beside the needed ones, oddly stored ones."""

import decimal
import json
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.data.records import KEPT
from fedscan.data.sources import local, parquet_rows

NAMES = ["RedPajamaC4", "RedPajamaGithub"]
META = pa.array([{"redpajama_set_name": name} for name in NAMES])


METADATA = pa.table({"text": ["a"]})


def read(file):
    return [(record.domain, record.text) for record in local.records([], 0, paths=[str(file)])]


def write(folder, columns, **how):
    file = folder / "x.parquet"
    pq.write_table(pa.table(columns), file, **how)
    return file


def struct(names, **others):
    parts = {"redpajama_set_name": names, **others}
    return pa.StructArray.from_arrays(list(parts.values()), list(parts))


@pytest.mark.parametrize(
    "meta",
    [
        META,
        struct(pa.array(NAMES).dictionary_encode()),
        struct(pa.array(NAMES, pa.large_string()), other=pa.array([[1], None])),
        pa.array(
            [[("redpajama_set_name", n), ("url", "u")] for n in NAMES],
            pa.map_(pa.string(), pa.string()),
        ),
        pa.array([json.dumps({"redpajama_set_name": n}) for n in NAMES]),
        pa.array([json.dumps({"redpajama_set_name": n}).encode() for n in NAMES]),
        pa.array([json.dumps({"redpajama_set_name": n}) for n in NAMES]).dictionary_encode(),
    ],
    ids=["struct", "dictionary", "large", "map", "JSON", "JSON as bytes", "JSON dictionary"],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_every_way_to_store_meta(tmp_path, meta, rows):
    file = write(tmp_path, {"meta": meta, "text": ["a", "b"]}, row_group_size=rows)
    assert read(file) == [("c4", "a"), ("github", "b")]


@pytest.mark.parametrize(
    "text",
    [
        pa.array([b"a", b"b"]),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.string_view()),
    ],
)
def test_every_way_to_store_text(tmp_path, text):
    assert read(write(tmp_path, {"text": text, "meta": META})) == [("c4", "a"), ("github", "b")]


def test_a_struct_of_dictionaries_over_many_row_groups(tmp_path):
    names = pa.array(NAMES * 1500).dictionary_encode()
    columns = {"text": ["a"] * 3000, "meta": struct(names)}
    file = write(tmp_path, columns, row_group_size=700)
    assert len(read(file)) == 3000
    columns["meta"] = struct(names, other=names)
    assert len(read(write(tmp_path, columns, row_group_size=700))) == 3000


def test_only_what_is_needed_is_read(tmp_path):
    damaged = pa.array([f"{i}" * 100 for i in range(2)])
    columns = {
        "text": ["a", "b"],
        "other": damaged,
        "meta": struct(pa.array(NAMES), deep=damaged),
        "price": pa.array([decimal.Decimal("1.5")] * 2),
        "tags": pa.ListArray.from_arrays([0, 1, 2], pa.array(["p", "q"]).dictionary_encode()),
        "span": pa.array([1, 2], pa.duration("s")),
        "nothing": pa.nulls(2),
        "meta.redpajama_set_name": ["x", "y"],
    }
    file = write(tmp_path, columns, use_dictionary=False, compression="none",
                 write_page_checksum=True)  # fmt: skip
    data = file.read_bytes()
    for value in damaged.to_pylist():
        data = data.replace(value.encode(), b"\xff" * 100)
    file.write_bytes(data)
    assert read(file) == [("c4", "a"), ("github", "b")]


def test_damage_is_named_with_its_row_group(tmp_path):
    columns = {"text": ["a" * 99, "b" * 99], "meta": META}
    file = write(tmp_path, columns, use_dictionary=False, compression="none", row_group_size=1,
                 write_page_checksum=True, write_statistics=False)  # fmt: skip
    file.write_bytes(file.read_bytes().replace(b"b" * 99, b"c" * 99))
    records = local.records([], 0, paths=[str(file)])
    assert next(records).outcome == KEPT
    with pytest.raises(ValueError, match=r"x\.parquet: row group 1, after row 1: not a whole"):
        next(records)


def test_a_column_that_stands_there_twice_is_refused(tmp_path):
    arrays = [pa.array(["a"]), pa.array(["b"]), META[:1]]
    table = pa.Table.from_arrays(arrays, ["text", "text", "meta"])
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet: column 'text' stands there 2 times"):
        read(tmp_path / "x.parquet")


@pytest.mark.parametrize("error", [pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError, KeyError])
def test_whatever_arrow_throws_is_one_line_with_the_file(tmp_path, monkeypatch, error):
    file = write(tmp_path, {"text": ["a", "b"], "meta": META})

    def broken(*args, **keys):
        raise error("Nested\nthings")

    monkeypatch.setattr(parquet_rows.pq, "ParquetFile", broken)
    with pytest.raises(ValueError, match=r"x\.parquet: .*Nested.*things") as caught:
        read(file)
    assert "\n" not in str(caught.value)


def test_a_whole_file_that_arrow_refuses_is_not_called_damaged(tmp_path, monkeypatch):
    file = write(tmp_path, {"text": ["a", "b"], "meta": META})

    def refused(*args, **keys):
        raise pa.ArrowInvalid("Map keys must be annotated as required.")

    monkeypatch.setattr(parquet_rows.pq, "ParquetFile", refused)
    monkeypatch.setattr(parquet_rows.pq, "read_metadata", lambda file: METADATA)
    with pytest.raises(ValueError, match=r"Arrow does not read \(Map keys .*new file, with DuckDB"):
        read(file)


def test_text_that_is_not_utf8_is_named_by_row(tmp_path):
    file = write(tmp_path, {"text": [b"a", b"caf\xe9"], "meta": META})
    with pytest.raises(ValueError, match=r"x\.parquet: row 2: not UTF-8"):
        read(file)
    latin = pa.StringArray.from_buffers(
        1, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xe9")
    )
    file = write(tmp_path, {"text": latin, "meta": META[:1]})
    with pytest.raises(ValueError, match=r"x\.parquet: row group 0, after row 0: text that is not"):
        read(file)


GROWTH = """
import re, sys
from pathlib import Path
from fedscan.data.sources import local
def most(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
list(local.records([], 0, paths=[sys.argv[1]]))
before = most()
for record in local.records([], 0, paths=[sys.argv[2]]): pass
print(most() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_a_row_group(tmp_path):
    files = []
    for name, count in (("small", 2000), ("large", 40_000)):
        text = [random.Random(i).randbytes(1000).hex() for i in range(count)]
        meta = pa.array([{"redpajama_set_name": "RedPajamaC4"}] * count)
        (tmp_path / name).mkdir()
        columns = {"text": text, "meta": meta}
        how = {"compression": "none", "use_dictionary": False}
        files.append(str(write(tmp_path / name, columns, **how)))
    assert pq.read_metadata(files[1]).num_row_groups == 1
    command = [sys.executable, "-c", GROWTH, *files]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < 60_000  # of 80,000 in the file; read ahead it would be all, and more


def test_no_row_groups_and_no_rows(tmp_path):
    schema = pa.schema({"text": pa.string(), "meta": META.type})
    with pq.ParquetWriter(tmp_path / "x.parquet", schema):
        pass
    assert read(tmp_path / "x.parquet") == []
    pq.write_table(schema.empty_table(), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet") == []
