"""Records of the user's files: CSV with a header line, JSON lines, or Parquet.

Columns are the template's fields and ``label``. A file is read as a whole: tasks have thousands
of records, not millions, and the shuffle needs to know how many.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedscan.data.sources.local import expanded
from fedscan.data.tasks.definition import Example, Pool, Task, label_of, text_of

LABEL = "label"
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
        ValueError: if the file is missing or damaged, or a record is not one of the task's; names
            file, row or line, column and what would be right.
    """
    path = expanded(files[task.name][split], f"merging.local.{task.name}.{split}")
    if path.suffix not in READERS:
        raise ValueError(f"{path}: expected a {', '.join(READERS)} file")
    if not path.is_file():
        raise ValueError(f"{path}: no such file; merging.local.{task.name}.{split} names it")
    examples = [_example(task, path, number, row) for number, row in READERS[path.suffix](path)]
    if not examples:
        raise ValueError(f"{path}: no records; {task.name} needs at least one")
    return Pool(len(examples), examples.__getitem__, str(path))


def _example(task: Task, path: Path, number: int, row: Mapping[str, Any]) -> Example:
    missing = [name for name in (*task.fields, LABEL) if name not in row]
    if missing:
        raise ValueError(
            f"{path}:{number}: no column {missing[0]!r}; its columns: {', '.join(map(str, row))};"
            f" {task.name} needs {', '.join((*task.fields, LABEL))}"
        )
    try:
        example = Example(text_of(task, row), label_of(task, row[LABEL]))
        "".join(example.fields.values()).encode()
        return example
    except UnicodeEncodeError:
        raise ValueError(f"{path}:{number}: the text holds half a surrogate pair") from None
    except ValueError as error:
        raise ValueError(f"{path}:{number}: {error}") from None


def _csv(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            try:
                for row in reader:
                    if None in row:
                        message = "more cells than the header has"
                        raise ValueError(f"{path}:{reader.line_num}: {message}")
                    yield reader.line_num, row
            except csv.Error as error:
                place = f"{path}: after line {reader.line_num}"
                raise ValueError(f"{place}: not usable CSV ({error})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason})") from None


def _json_lines(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, _json_object(path, number, line)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason})") from None


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # a number too long, nested too deeply
        raise ValueError(f"{path}:{number}: not usable JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}:{number}: expected an object, found {type(value).__name__}")
    return value


def _parquet(path: Path) -> Iterator[Row]:
    try:
        rows = pq.ParquetFile(path).read().to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from None
    yield from enumerate(rows, 1)


READERS = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
