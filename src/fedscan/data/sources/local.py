"""Records from the user's files (.jsonl, .jsonl.zst, .jsonl.gz, .parquet) in SlimPajama's schema.

Lines are parsed one by one rather than by a bulk JSON reader: one bad line is then named by file
and line, a null ``meta`` at the head of a file does no harm, and a zstd frame cut at a block
boundary, which bulk readers take for the end of the data, is an error.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from fedscan.data.records import SET_NAME, Record, classify, parse_line
from fedscan.data.sources import parquet_rows
from fedscan.data.sources.blocks import blocks
from fedscan.data.sources.search import SUFFIXES, expanded, search

__all__ = ["SUFFIXES", "expanded", "find_files", "records", "search"]


def records(
    _domains: Sequence[str], _seed: int, _position: object = None, *, paths: Sequence[str]
) -> Iterator[Record]:
    """Yield the records of all files, in sorted file order.

    Args:
        paths: files, folders (searched recursively) or globs.

    Yields:
        One classified record per line or row.

    Raises:
        ValueError: for a path without files, a damaged file or a record outside the schema; the
            message names file and line or row.
    """
    for file in find_files(paths):
        yield from _parquet(file) if file.suffix == ".parquet" else _lines(file)


def find_files(paths: Sequence[str]) -> list[Path]:
    """Return the data files that ``paths`` name, sorted, each once.

    Args:
        paths: files, folders or globs (``**`` matches any depth).

    Returns:
        Existing files with a known suffix.

    Raises:
        ValueError: if a path matches no data file.
    """
    return search(paths).files


def _lines(file: Path) -> Iterator[Record]:
    number, parts = 0, list[bytes]()
    for block in blocks(file):
        # Parts of a long line are joined once: joining at every block takes quadratic time.
        first, *lines = block.split(b"\n")
        parts.append(first)
        for line in lines:
            number += 1
            yield from _record(file, number, b"".join(parts))
            parts = [line]
    yield from _record(file, number + 1, b"".join(parts))


def _record(file: Path, number: int, line: bytes) -> Iterator[Record]:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.strip():
        return
    place = f"{file}:{number}"
    try:
        yield parse_line(line.decode("utf-8"))._replace(place=place)
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: not UTF-8 ({error.reason})") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _parquet(file: Path) -> Iterator[Record]:
    for number, row in parquet_rows.rows(file, ["meta", "text"], leaves=_leaves):
        try:
            record = classify(row.get("text"), row.get("meta"))
        except ValueError as error:
            raise ValueError(f"{file}: row {number}: {error}") from None
        yield record._replace(place=f"{file}: row {number}")


def _leaves(schema: pa.Schema) -> list[str]:
    """Read one field of ``meta``: others may be of kinds that Arrow does not read."""
    meta = schema.field("meta").type
    inside = pa.types.is_struct(meta) and any(field.name == SET_NAME for field in meta)
    return ["text", f"meta.{SET_NAME}" if inside else "meta"]
