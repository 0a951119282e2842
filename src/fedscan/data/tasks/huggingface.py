"""Records of the four datasets on the Hugging Face hub, or of copies in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedscan.data.sources.hub_folder import refuse_pointers
from fedscan.data.tasks.definition import (
    Example,
    Pool,
    Task,
    label_of,
    label_of_number,
    text_of,
)


def pool(task: Task, split: str, *, folder: str | None) -> Pool:
    """Return the records of a split.

    Args:
        task: names the dataset, its columns and labels.
        split: 'train' or 'evaluation'.
        folder: holds copies laid out as on the hub, <folder>/<namespace>/<name>; None: the hub.

    Returns:
        Records in the dataset's order; columns are read when a record is asked for.

    Raises:
        ValueError: if the dataset cannot be had, or its columns or labels are not as expected.
    """
    hub = task.hub
    place = hub.repo if folder is None else str(Path(folder).expanduser() / hub.repo)
    refuse_pointers(place)
    table = _load(place, hub.configuration if folder is None else None, getattr(hub, split))
    columns = [*hub.fields.values(), hub.label]
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ValueError(
            f"{place}: no column {missing[0]!r}; its columns: {', '.join(table.column_names)};"
            f" {task.name} needs {', '.join(columns)}"
        )
    names = getattr(table.features[hub.label], "names", None)
    if names is not None:
        _require_names(task, place, names)
    table = table.select_columns(columns)

    def get(index: int) -> Example:
        row = table[index]
        try:
            fields = text_of(task, {field: row[column] for field, column in hub.fields.items()})
            value = row[hub.label]
            # A number by the dataset's own names, text by the task's.
            label = label_of(task, value) if names is None else label_of_number(task, value, names)
            return Example(fields, label)
        except ValueError as error:
            raise ValueError(f"{place}: {split} row {index}: {error}") from None

    return Pool(len(table), get, place)


def _load(place: str, configuration: str | None, split: str) -> Any:
    # Imported here: it takes seconds, and no other source needs it.
    from datasets import load_dataset
    from datasets.exceptions import DataFilesNotFoundError, DatasetNotFoundError

    try:
        return load_dataset(place, configuration, split=split)
    except (
        DatasetNotFoundError,
        DataFilesNotFoundError,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:
        text = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{place!r} (split {split!r}) cannot be opened: {type(error).__name__}: {text}; a"
            " folder with a copy of it, or files of your own, do as well"
        ) from error


def _require_names(task: Task, place: str, names: Sequence[str]) -> None:
    expected = [label.name for label in task.labels]
    if sorted(names) != sorted(expected):
        raise ValueError(f"{place}: its labels are {list(names)}; {task.name} has {expected}")
