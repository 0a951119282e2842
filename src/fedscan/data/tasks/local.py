"""Records of the user's files: CSV with a header line, JSON lines, or Parquet.

Columns are the template's fields and ``label``; others are not looked at. A file is read as a
whole: tasks have thousands of records, not millions, and the shuffle needs to know how many.
"""

import contextlib
import csv
import filecmp
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.data.sources import parquet_rows
from fedscan.data.sources.blocks import HEAD_BYTES, refuse_no_text
from fedscan.data.sources.search import expanded
from fedscan.data.tasks.definition import (
    Example,
    Pool,
    Task,
    label_of,
    label_of_number,
    text_of,
)

LABEL = "label"
# Longer than any text; the csv module's own is 131,072 characters.
LONGEST_CELL = 1 << 30
Row = tuple[int, Mapping[str, Any]]


def pool(task: Task, split: str, **files: Mapping[str, str]) -> Pool:
    """Return the records of a split.

    Args:
        task: gives fields and labels.
        split: 'train' or 'evaluation'.
        **files: task name -> {'train': file, 'evaluation': file}.

    Returns:
        Records in the file's order.

    Raises:
        ValueError: if the file is missing, damaged or the other split's too, or a record is not
            one of the task's; names file, row or line, column and what would be right.
    """
    path = expanded(files[task.name][split], f"{task.name}.{split}")
    if path.suffix not in READERS:
        raise ValueError(f"{path}: expected a {', '.join(READERS)} file")
    if not path.is_file():
        raise ValueError(f"{path}: no such file; it is to hold {task.name}'s {split} records")
    _refuse_the_other_split(path, split, files[task.name])
    refuse_no_text(path, _head(path))
    names = parquet_rows.class_names(path, LABEL) if path.suffix == ".parquet" else None
    reading = READERS[path.suffix](path, (*task.fields, LABEL), task.name)
    # A reader left open after an error would keep its limit on cells, which is the process's.
    with contextlib.closing(reading) as rows:
        examples = [_example(task, path, number, row, names) for number, row in rows]
    if not examples:
        raise ValueError(f"{path}: no records; {task.name} needs at least one")
    return Pool(len(examples), examples.__getitem__, str(path))


def _refuse_the_other_split(path: Path, split: str, files: Mapping[str, str]) -> None:
    """Refuse one file as training and evaluation set, under one name or two, or copied."""
    for name, other in files.items():
        file = Path(other).expanduser()
        if name != split and file.is_file() and filecmp.cmp(path, file, shallow=False):
            raise ValueError(
                f"{path}: the same records as {file}: training and evaluation need two files"
                " without common records"
            )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD_BYTES)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None


def _example(
    task: Task, path: Path, number: int, row: Mapping[str, Any], names: Sequence[str] | None
) -> Example:
    try:
        value = row[LABEL]
        numbered = names is not None and not isinstance(value, str)
        label = label_of_number(task, value, names or ()) if numbered else label_of(task, value)
        example = Example(text_of(task, row), label)
        "".join(example.fields.values()).encode()
        return example
    except UnicodeEncodeError:
        raise ValueError(f"{path}:{number}: the text holds half a surrogate pair") from None
    except ValueError as error:
        raise ValueError(f"{path}:{number}: {error}") from None


def _require(place: str, names: Sequence[str], needed: Sequence[str], task: str) -> None:
    for name in needed:
        if name not in names:
            raise ValueError(
                f"{place}: no column {name!r}; its columns: {', '.join(names)};"
                f" {task} needs {', '.join(needed)}"
            )
        if names.count(name) > 1:
            raise ValueError(
                f"{place}: column {name!r} stands there {names.count(name)} times; leave one"
            )


def _csv(path: Path, needed: Sequence[str], task: str) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream, _long_cells():
            reader = csv.reader(stream, strict=True)
            try:
                header = next((cells for cells in reader if cells), None)
                if header is None:
                    return
                _require(f"{path}:{reader.line_num}", header, needed, task)
                for cells in reader:
                    if cells:
                        yield reader.line_num, _cells(path, reader.line_num, header, cells)
            except csv.Error as error:
                place = f"{path}: after line {reader.line_num}"
                raise ValueError(f"{place}: not usable CSV ({error})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{_line_of_damage(path)}: not UTF-8 ({error.reason})") from None


def _line_of_damage(path: Path) -> int:
    """Return the first line that is not UTF-8; readers of text know it only to a block."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0


def _cells(path: Path, line: int, header: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(header):
        what = "more" if len(cells) > len(header) else "fewer"
        raise ValueError(
            f"{path}:{line}: {what} cells than the header has: {len(cells)}, not {len(header)};"
            ' a cell with commas or line ends must stand in "quotes"'
        )
    return dict(zip(header, cells, strict=True))


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_lines(path: Path, needed: Sequence[str], task: str) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    found = _json_object(path, number, line)
                    _require(f"{path}:{number}", list(found), needed, task)
                    yield number, found
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{_line_of_damage(path)}: not UTF-8 ({error.reason})") from None


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # a number too long, nested too deeply
        raise ValueError(f"{path}:{number}: not usable JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}:{number}: expected an object, found {type(value).__name__}")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands there {keys.count(twice)} times; leave one")
    return found


def _parquet(path: Path, needed: Sequence[str], task: str) -> Iterator[Row]:
    _require(str(path), parquet_rows.column_names(path), needed, task)
    for number, row in parquet_rows.rows(path, needed):
        yield number, {name: _as_text(path, number, value) for name, value in row.items()}


def _as_text(path: Path, number: int, value: object) -> object:
    """Decode what a writer stored as bytes without saying that they are text."""
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{number}: not UTF-8 ({error.reason})") from None


READERS = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
