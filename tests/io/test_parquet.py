"""Declared tables: refusal of anything else, NaN kept, same rows same bytes, damage detected."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.experiments.registry import tables
from fedscan.io import parquet
from fedscan.io.tables import arrow_schema

TABLES = tables()

ROWS = [
    {"check": "a", "subject": "x", "passed": True, "detail": ""},
    {"check": "b", "subject": "y", "passed": False, "detail": "é"},
]


def test_round_trip_and_provenance(tmp_path):
    path = tmp_path / "deep" / "t.parquet"
    parquet.write(path, TABLES["checks"], ROWS, {"versions": {"x": "1"}})
    assert parquet.read(path, TABLES["checks"]).to_pylist() == ROWS
    stored = json.loads(parquet.read_provenance(path))
    assert stored == {"table": "checks", "versions": {"x": "1"}}


def test_frames_lists_and_tables_give_the_same_bytes(tmp_path):
    frame = pd.DataFrame(ROWS)[["detail", "check", "passed", "subject"]]
    table = pa.Table.from_pylist(ROWS)
    for name, rows in (("a", ROWS), ("b", frame), ("c", table)):
        parquet.write(tmp_path / name, TABLES["checks"], rows, {"k": 1})
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.pop("detail"), "missing columns: detail; undeclared columns: none"),
        (lambda r: r.update(extra=1), "missing columns: none; undeclared columns: extra"),
        (lambda r: r.update(passed="yes"), "table checks"),
        (lambda r: r.update(check=None), "column 'check' has nulls"),
    ],
)
def test_undeclared_rows_are_refused_and_nothing_is_written(tmp_path, change, words):
    rows = [dict(row) for row in ROWS]
    change(rows[1])
    with pytest.raises(ValueError, match="table checks") as error:
        parquet.write(tmp_path / "t.parquet", TABLES["checks"], rows, {})
    assert words in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_nan_stays_a_number_and_null_stays_null(tmp_path):
    base = {
        c.name: {"string": "", "int64": 1, "double": 1.0}[str(c.dtype)]
        for c in TABLES["runs"].columns
    }
    rows = [base | {"val_ppl": float("nan"), "failed_client": None, "train_ppl": float("inf")}]
    parquet.write(tmp_path / "a", TABLES["runs"], rows, {})
    frame = parquet.read_frame(tmp_path / "a", TABLES["runs"])
    parquet.write(tmp_path / "b", TABLES["runs"], frame, {})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    table = pq.read_table(tmp_path / "b")
    assert table["val_ppl"].null_count == 0
    assert table["failed_client"].null_count == 1
    assert table["train_ppl"][0].as_py() == float("inf")


def test_damage_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(ValueError, match=r"t\.parquet: no such file; expected a checks table"):
        parquet.read(path, TABLES["checks"])
    parquet.write(path, TABLES["checks"], ROWS, {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        parquet.read(path, TABLES["checks"])
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="are not those of table 'tokens'"):
        parquet.read(path, TABLES["tokens"])
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match="no fedscan metadata"):
        parquet.read_provenance(path)


def test_a_failed_write_keeps_the_previous_file(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write(path, TABLES["checks"], ROWS, {})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="undeclared"):
        parquet.write(path, TABLES["checks"], [{"wrong": 1}], {})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_every_column_is_documented():
    for name, table in TABLES.items():
        columns = table.columns
        assert table.name == name
        assert arrow_schema(table).names == [column.name for column in columns]
        assert len({column.name for column in columns}) == len(columns)
        for column in columns:
            assert column.meaning
            assert column.unit
