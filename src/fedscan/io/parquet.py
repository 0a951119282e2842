"""Read and write declared tables as Parquet: same rows, same bytes.

pandas is imported where frames are handled: training jobs write lists and never need it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedscan.io.atomic import replacing
from fedscan.io.pointer_files import refuse_pointer
from fedscan.io.provenance import canonical_json
from fedscan.io.tables import Table, arrow_schema

if TYPE_CHECKING:
    import pandas as pd

ROW_GROUP = 4096
METADATA_KEY = b"fedscan"


def write(
    path: str | os.PathLike[str],
    table: Table,
    rows: pd.DataFrame | pa.Table | list[dict[str, Any]],
    provenance: Mapping[str, Any],
) -> None:
    """Write ``rows`` as the declared ``table``, whole or not at all.

    Args:
        path: file to write.
        table: its declaration.
        rows: rows with exactly the declared columns, in any order.
        provenance: JSON-like data stored in the file's metadata (versions, config, code); nothing
            that depends on time, host or path, so that equal rows give equal bytes.

    Raises:
        ValueError: if a column is missing, undeclared or does not fit its type, or if a
            non-nullable column has nulls.
    """
    schema = arrow_schema(table)
    data = _as_table(table.name, schema, rows)
    for field in schema:
        if not field.nullable and data.column(field.name).null_count:
            raise ValueError(f"table {table.name}: column {field.name!r} has nulls; it must not")
    metadata = {METADATA_KEY: canonical_json({"table": table.name, **provenance}).encode()}
    data = data.replace_schema_metadata(metadata)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(
            temporary,
            data.schema,
            compression="zstd",
            use_dictionary=False,
            write_page_checksum=True,
        ) as file,
    ):
        # No rows, no row group: some readers (Hugging Face datasets) fail on an empty one.
        if data.num_rows:
            file.write_table(data, row_group_size=ROW_GROUP)


def to_arrow(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table, as ``write`` does.

    Args:
        table: the declaration.
        rows: rows with exactly the declared columns, in any order.

    Returns:
        The table; ``write`` takes it, and several of them joined, for the same bytes.

    Raises:
        ValueError: if a column is missing, undeclared or does not fit its type.
    """
    return _as_table(table.name, arrow_schema(table), rows)


def _as_table(
    table: str, schema: pa.Schema, rows: pd.DataFrame | pa.Table | list[dict[str, Any]]
) -> pa.Table:
    if isinstance(rows, list):
        names = set(schema.names)
        wrong = next((row for row in rows if set(row) != names), None)
        found = names if wrong is None else set(wrong)
    else:
        found = set(rows.column_names if isinstance(rows, pa.Table) else rows.columns)
    if found != set(schema.names):
        missing = ", ".join(sorted(set(schema.names) - found)) or "none"
        extra = ", ".join(sorted(found - set(schema.names))) or "none"
        raise ValueError(f"table {table}: missing columns: {missing}; undeclared columns: {extra}")
    try:
        if isinstance(rows, list):
            return pa.Table.from_pylist(rows, schema=schema)
        if isinstance(rows, pa.Table):
            return rows.select(schema.names).cast(schema)
        frame = rows[schema.names]
        # from_pandas=False keeps NaN a number: a non-finite result is a result, not a gap.
        columns = [
            pa.array(_values(frame[field.name], field), type=field.type, from_pandas=False)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"table {table}: {error}") from None


def _values(series: pd.Series, field: pa.Field) -> list[Any]:
    """Return Python values; pandas' NA and, in nullable columns, NaN mean null."""
    import pandas as pd

    missing = series.isna() if field.nullable else series.map(lambda value: value is pd.NA)
    return [
        None if absent else value for value, absent in zip(series.tolist(), missing, strict=True)
    ]


def read(path: str | os.PathLike[str], table: Table) -> pa.Table:
    """Read a table and verify that it is whole and has the declared schema.

    Args:
        path: file written by ``write``.
        table: the declaration expected.

    Returns:
        The table, columns in declared order.

    Raises:
        ValueError: if the file is missing, truncated, of another schema version or of another kind.
    """
    schema = arrow_schema(table)
    try:
        # ParquetFile, unlike read_table, takes no columns from the folders' key=value names.
        with pq.ParquetFile(Path(path), page_checksum_verification=True) as file:
            data = file.read()
        names = data.schema.names
    except FileNotFoundError:
        raise ValueError(
            f"{path}: no such file; expected a {table.name} table, which 'snakemake' makes again"
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        refuse_pointer(path)
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from None
    if names != schema.names or data.schema.types != schema.types:
        raise ValueError(
            f"{path}: columns {_columns(data.schema)} are not those of table {table.name!r} in this"
            f" version ({_columns(schema)}); delete the file to recompute it"
        )
    return data


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def read_frame(path: str | os.PathLike[str], table: Table) -> pd.DataFrame:
    """Read a table as a pandas frame, see ``read``.

    Args:
        path: file written by ``write``.
        table: the declaration expected.

    Returns:
        The rows; nullable integers stay integers (pandas' Int64).
    """
    import pandas as pd

    data = read(path, table)
    frame: pd.DataFrame = data.to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype()}.get, integer_object_nulls=True
    )
    return frame


def read_provenance(path: str | os.PathLike[str]) -> bytes:
    """Return the provenance JSON stored in a Parquet file by ``write``.

    Args:
        path: file written by ``write``.

    Returns:
        UTF-8 JSON.

    Raises:
        ValueError: if the file has none.
    """
    metadata = pq.read_schema(Path(path)).metadata or {}
    if METADATA_KEY not in metadata:
        raise ValueError(f"{path}: written by another program, no fedscan metadata")
    return bytes(metadata[METADATA_KEY])


def collect(
    folders: Mapping[str, Mapping[str, Any]], root: str | os.PathLike[str], table: Table
) -> pd.DataFrame:
    """Join a table of many jobs, with the keys of their paths as columns.

    Args:
        folders: a job's folder below ``root`` -> its keys, name -> value.
        root: folder of all jobs.
        table: the declaration expected.

    Returns:
        The rows in the order of ``folders``; the keys come after the table's own columns.

    Raises:
        ValueError: if a table is missing or damaged.
    """
    import pandas as pd

    frames = [
        read_frame(Path(root, folder, f"{table.name}.parquet"), table).assign(**keys)
        for folder, keys in folders.items()
    ]
    return pd.concat(frames, ignore_index=True)
