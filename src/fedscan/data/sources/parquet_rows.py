"""Rows of a Parquet file, of the columns that are needed, with the place of every failure.

Row group by row group: Arrow cannot join dictionary-encoded fields of a struct across them. Pages
are checked against their checksums where the file has some.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedscan.data.sources.blocks import HEAD_BYTES
from fedscan.io.lfs import POINTER_MESSAGE, is_pointer

BATCH_ROWS = 1024
# Pages are read as they are needed: a row group may be larger than the memory.
BUFFER_BYTES = 1 << 20
# What Arrow throws at files it cannot read, beside its own exceptions.
ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    NotImplementedError,
    OverflowError,
)


def rows(
    file: Path,
    needed: Sequence[str],
    *,
    leaves: Callable[[pa.Schema], Sequence[str]] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield row numbers from 1 and rows.

    Args:
        file: Parquet file.
        needed: columns; no other is read.
        leaves: schema -> what is read of the columns (``meta.name`` for a field); all of each.

    Yields:
        Row number and column -> value.

    Raises:
        ValueError: if a column is missing or stands there twice, or the file is damaged or of a
            kind that Arrow does not read; names file and place.
    """
    row = 0
    with _opened(file) as parquet:
        _require(file, parquet.schema_arrow.names, needed)
        columns = list(needed if leaves is None else leaves(parquet.schema_arrow))
        for group in range(parquet.num_row_groups):
            batches = parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
            while True:
                try:
                    batch = next(batches, None)
                    values = [] if batch is None else batch.to_pylist(maps_as_pydicts="strict")
                except ERRORS as error:
                    place = f"row group {group}, after row {row}"
                    raise ValueError(f"{file}: {place}: {_unreadable(error)}") from None
                if batch is None:
                    break
                for value in values:
                    row += 1
                    yield row, value


def column_names(file: Path) -> list[str]:
    """Return the names of a file's columns.

    Args:
        file: Parquet file.

    Returns:
        Names in the file's order; one may stand there twice.

    Raises:
        ValueError: if the file cannot be read; names it.
    """
    with _opened(file) as parquet:
        return list(parquet.schema_arrow.names)


def class_names(file: Path, column: str) -> list[str] | None:
    """Return the names that a column's numbers stand for, as Hugging Face datasets write them.

    Args:
        file: Parquet file.
        column: name of a column.

    Returns:
        Names by number; None if the file has none.

    Raises:
        ValueError: if the file cannot be read; names it.
    """
    with _opened(file) as parquet:
        text = (parquet.schema_arrow.metadata or {}).get(b"huggingface")
    try:
        names = json.loads(text or b"{}")["info"]["features"][column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if usable and names else None


def _opened(file: Path) -> pq.ParquetFile:
    try:
        with file.open("rb") as stream:
            pointer = is_pointer(stream.read(HEAD_BYTES))
        if not pointer:
            return pq.ParquetFile(
                file,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
    except ERRORS as error:
        reason = _unsupported(error) if _has_metadata(file) else _unreadable(error)
        raise ValueError(f"{file}: {reason}") from None
    raise ValueError(f"{file}: {POINTER_MESSAGE}")


def _require(file: Path, names: Sequence[str], needed: Sequence[str]) -> None:
    shown = ", ".join(names)
    for name in needed:
        if name not in names:
            raise ValueError(f"{file}: no column {name!r}; its columns: {shown}")
        if names.count(name) > 1:
            raise ValueError(f"{file}: column {name!r} stands there {names.count(name)} times")


def _has_metadata(file: Path) -> bool:
    """Return whether a file that Arrow refuses is whole: its description can be read."""
    try:
        return pq.read_metadata(file).num_columns >= 0
    except ERRORS:
        return False


def _unreadable(error: BaseException) -> str:
    if isinstance(error, NotImplementedError):
        return _unsupported(error)
    if isinstance(error, UnicodeDecodeError):
        return f"text that is not UTF-8 ({error.reason})"
    return f"not a whole Parquet file ({_short(error)}); fetch or write it again"


def _unsupported(error: BaseException) -> str:
    return (
        f"a kind of column that Arrow does not read ({_short(error)}); write the needed columns to"
        " a new file, with DuckDB: COPY (SELECT a, b FROM 'old.parquet') TO 'new.parquet'"
    )


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
