"""What a classification task is: template, labels and where its columns are (``tasks.json``).

The paper (Table 7) prints the openings of the prompts and the label words; the rest of the
templates is our reading, and stands in that one file.
"""

import functools
import importlib.resources
import json
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Label(NamedTuple):
    """One class: the word a model is scored on and the name datasets give it."""

    word: str
    name: str


class Hub(NamedTuple):
    """Where a task is on the Hugging Face hub; ``fields`` maps template fields to columns."""

    repo: str
    configuration: str | None
    train: str
    evaluation: str
    label: str
    fields: Mapping[str, str]


class Task(NamedTuple):
    """A task; ``pieces`` are (literal, field) pairs, then the ``tail`` asks for the label."""

    name: str
    pieces: tuple[tuple[str, str], ...]
    tail: str
    labels: tuple[Label, ...]
    hub: Hub

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the text fields, in template order."""
        return tuple(field for _, field in self.pieces)


class Example(NamedTuple):
    """One labelled record: text by field, and the index of its label."""

    fields: Mapping[str, str]
    label: int


class Pool(NamedTuple):
    """All records of a split, by index, so that none has to be read before the shuffle picks it."""

    size: int
    get: Callable[[int], Example]
    origin: str


@functools.cache
def definitions() -> Mapping[str, Task]:
    """Return every task the package knows.

    Returns:
        Name -> task, in the paper's order.
    """
    file = importlib.resources.files("fedscan.data.tasks") / "tasks.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    return {name: _task(name, entry) for name, entry in entries.items()}


def label_of(task: Task, value: object) -> int:
    """Return the index of a label given by word or by dataset name, in any case.

    Numbers are refused: the same classes have other numbers in other copies of a dataset.

    Args:
        task: the task.
        value: what the record holds.

    Returns:
        Index into ``task.labels``.

    Raises:
        ValueError: if no label has that word or name; the message lists those that exist.
    """
    wanted = str(value).strip().casefold()
    for index, label in enumerate(task.labels):
        if isinstance(value, str) and wanted in (label.word.casefold(), label.name.casefold()):
            return index
    known = ", ".join(f"{label.word!r} or {label.name!r}" for label in task.labels)
    raise ValueError(f"label {value!r} is not one of {task.name}'s: {known}")


def label_of_number(task: Task, value: object, names: Sequence[str]) -> int:
    """Return the index of a label given by its number in a dataset that names its classes.

    Args:
        task: the task.
        value: what the record holds.
        names: the dataset's names, by number.

    Returns:
        Index into ``task.labels``.

    Raises:
        ValueError: if there is no such number, or its name is not one of the task's.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(names):
        raise ValueError(f"label {value!r} is not one of 0..{len(names) - 1}")
    return label_of(task, names[value])


def text_of(task: Task, values: Mapping[str, Any]) -> dict[str, str]:
    """Return a record's text fields, stripped.

    Args:
        task: the task.
        values: field -> what the record holds.

    Returns:
        Field -> text.

    Raises:
        ValueError: if a field is not text or empty.
    """
    found = {}
    for field in task.fields:
        value = values.get(field)
        if not isinstance(value, str) or not value.strip():
            shown = "is empty" if isinstance(value, str) else f"is {value!r}"
            raise ValueError(f"field {field!r} {shown}; {task.name} needs text in it")
        found[field] = value.strip()
    return found


def _task(name: str, entry: Mapping[str, Any]) -> Task:
    pieces, tail = [], ""
    for literal, field, _, _ in string.Formatter().parse(entry["template"]):
        if field is None:
            tail = literal
        else:
            pieces.append((literal, field))
    labels = tuple(Label(**label) for label in entry["labels"])
    return Task(name, tuple(pieces), tail, labels, Hub(**entry["hub"]))
