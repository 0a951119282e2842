"""Other programs read what is written: every table, empty or not, and the documents' examples."""

import re
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedscan.experiments.comparison.grid import Job, job_path
from fedscan.experiments.registry import tables
from fedscan.io import parquet
from fedscan.io.tables import arrow_schema

TABLES = tables()


def by_datasets(file):
    import datasets

    found = datasets.load_dataset("parquet", data_files=str(file), split="train", streaming=True)
    return len(list(found)), list(found.features)


def by_duckdb(file):
    found = duckdb.sql(f"SELECT * FROM read_parquet('{file}', hive_partitioning = false)")
    return len(found.fetchall()), found.columns


def shape(frame):
    return len(frame), list(frame.columns)


READERS = {
    "datasets": by_datasets,
    "duckdb": by_duckdb,
    "pandas": lambda file: shape(pd.read_parquet(file, partitioning=None)),
    "polars": lambda file: shape(pl.read_parquet(file, hive_partitioning=False)),
    "pyarrow": lambda file: (
        (table := pq.read_table(file, partitioning=None)).num_rows,
        table.column_names,
    ),
}


def example(kind):
    if pa.types.is_list(kind):
        return [example(kind.value_type)]
    if pa.types.is_string(kind):
        return "é"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return b"1" * getattr(kind, "byte_width", 1)
    if pa.types.is_boolean(kind):
        return True
    return 1


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("reader", READERS)
def test_every_table_opens_in_every_reader(tmp_path, reader, rows):
    for name, table in TABLES.items():
        file = tmp_path / f"{name}.parquet"
        row = {field.name: example(field.type) for field in arrow_schema(table)}
        parquet.write(file, table, [row] * rows, {"of": "a test"})
        assert READERS[reader](file) == (rows, arrow_schema(table).names), name


def test_tables_without_rows_open_beside_others_and_alone(tmp_path):
    import datasets

    for name, rows in (("empty", 0), ("full", 2)):
        row = {field.name: example(field.type) for field in arrow_schema(TABLES["heads"])}
        parquet.write(tmp_path / f"{name}.parquet", TABLES["heads"], [row] * rows, {})
    files = [str(tmp_path / f"{name}.parquet") for name in ("empty", "full")]
    both = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert both.num_rows == 2
    assert duckdb.sql(f"FROM read_parquet({files})").fetchall() == [tuple(row.values())] * 2
    assert pl.read_parquet(files).height == 2


BETAS = [0.0, 0.7, 1.0]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A folder like a run's, with one number spelled with and without a point."""
    monkeypatch.chdir(tmp_path)
    whole = []
    for beta in BETAS:
        for algorithm in ("fedavg", "fedprox"):
            job = Job("mamba2", 4, "1", 4, 64, beta, algorithm, 0)
            row = {f.name: example(f.type) for f in arrow_schema(TABLES["rounds"])} | {
                "val_ppl": beta + 1
            }
            file = f"results/federated/{job_path(job)}/rounds.parquet"
            parquet.write(file, TABLES["rounds"], [row], {})
            whole.append(job._asdict() | row)
    parquet.write("results/compare/all_rounds.parquet", TABLES["all_rounds"], whole, {})


def blocks(document, language):
    text = (Path(__file__).parents[2] / document).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/reading.md"])
def test_the_documented_query_sees_numbers(run, document):
    (query,) = [block for block in blocks(document, "sql") if "read_parquet" in block]
    found = duckdb.sql(query).fetchall()
    names = ("fedavg", "fedprox")
    assert found == [(name, beta, 1, beta + 1) for name in names for beta in (0.7, 1.0)]


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas"])
def test_the_documented_code_sees_numbers(run, library):
    (code,) = [b for b in blocks("docs/reading.md", "python") if f"import {library}" in b]
    names = {}
    exec(compile(code, library, "exec"), names)
    assert sorted(names["found"]["beta"]) == [0.7, 0.7, 1.0, 1.0]
    assert set(names["found"]["seed"]) == {0}
    assert len(names.get("streamed", [1] * 6)) == 2 * len(BETAS)
