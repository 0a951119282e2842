"""Stories of the user's files: JSON lines, Parquet, or plain text cut at ``<|endoftext|>``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedscan.data.sources import parquet_rows
from fedscan.data.sources.blocks import blocks
from fedscan.data.sources.search import expanded
from fedscan.data.stories.story import Story, story_of

COLUMNS = ("story", "text")
END = "<|endoftext|>"


def stories(split: str, *, train: str, test: str, origin: str | None) -> Iterator[Story]:
    """Yield the stories of a split.

    Args:
        split: 'train' or 'test'.
        train: file of the training split: .jsonl, .parquet or .txt.
        test: file of the test split.
        origin: column that clients are told apart by; None: none.

    Yields:
        Stories in the file's order.

    Raises:
        ValueError: if the file is missing, damaged, has no column 'story' or 'text', or a story is
            empty; names file and line or row.
    """
    path = expanded({"train": train, "test": test}[split], split)
    if path.suffix not in READERS:
        raise ValueError(f"{path}: expected a {', '.join(READERS)} file")
    if not path.is_file():
        raise ValueError(f"{path}: no such file; it is to hold the stories of split {split!r}")
    found = 0
    for story in READERS[path.suffix](path, origin):
        found += 1
        yield story
    if not found:
        raise ValueError(f"{path}: no stories")


def _lines(path: Path, origin: str | None) -> Iterator[Story]:
    text = _text(path)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{place}: not valid JSON ({error}); a line is one object") from None
        if not isinstance(record, dict):
            raise ValueError(f"{place}: expected a JSON object, found {type(record).__name__}")
        yield _of_record(record, list(record), origin, place)


def _rows(path: Path, origin: str | None) -> Iterator[Story]:
    names = parquet_rows.column_names(path)
    needed = [_column(names, str(path)), *([origin] if origin else [])]
    for number, row in parquet_rows.rows(path, needed):
        yield _of_record(row, names, origin, f"{path}: row {number}")


def _plain(path: Path, _origin: str | None) -> Iterator[Story]:
    for number, part in enumerate(_text(path).split(END), 1):
        if part.strip():
            yield story_of(part, None, f"{path}: story {number}")


def _text(path: Path) -> str:
    try:
        return b"".join(blocks(path)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _column(names: list[str], place: str) -> str:
    found = next((name for name in COLUMNS if name in names), None)
    if found is None:
        known = ", ".join(names) or "none"
        raise ValueError(f"{place}: no column {' or '.join(COLUMNS)}; its columns: {known}")
    return found


def _of_record(record: dict[str, Any], names: list[str], origin: str | None, place: str) -> Story:
    if origin is not None and origin not in record:
        raise ValueError(f"{place}: no column {origin!r}, which is to tell clients apart")
    text = record[_column(names, place)]
    return story_of(text, record[origin] if origin else None, place)


READERS = {".jsonl": _lines, ".parquet": _rows, ".txt": _plain}
