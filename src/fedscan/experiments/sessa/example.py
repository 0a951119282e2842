"""One sequence of a task, and what a task's module offers to the stage that writes them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

# File of a task's ids, beside its sequences.
VOCABULARY = "vocabulary.json"


class Example(NamedTuple):
    """One sequence.

    Attributes:
        tokens: ids, (length).
        places: positions that predict, (answers).
        answers: ids to be predicted there, (answers).
        lags: positions between each answer and where it was stored, (answers), or empty.
        label: class, if the task has classes.
        order: which family's block comes first, if the task has blocks.
        shortest_block: letters of the shorter block.
        pairs: stored pairs, where tasks mix several numbers.
        source: what clients are told apart by.
        ceiling_correct: whether the best possible rule is right, if it is known.
        text_bytes: UTF-8 bytes of the answers' text, if they are text.
    """

    tokens: np.ndarray
    places: np.ndarray
    answers: np.ndarray
    lags: np.ndarray = np.empty(0, int)
    label: int | None = None
    order: str | None = None
    shortest_block: int | None = None
    pairs: int | None = None
    source: str = ""
    ceiling_correct: bool | None = None
    text_bytes: int | None = None


class Split(NamedTuple):
    """A part of a task's data: 'train', 'validation' or 'test', and how much longer it is."""

    name: str
    factor: int
    count: int


class Vocabulary(NamedTuple):
    """Ids of a task.

    Attributes:
        size: ids there are.
        first_answer: smallest id an answer may be.
        last_answer: largest.
        name: of the tokenizer, or the task.
        description: a trained tokenizer, as JSON; '' for others.
    """

    size: int
    first_answer: int
    last_answer: int
    name: str
    description: str = ""


class Task(NamedTuple):
    """One task.

    Attributes:
        make: (section, seed) -> vocabulary, and a function split -> its examples.
        baselines: section -> name -> accuracy of a rule that needs no learning.
    """

    make: Callable[
        [Mapping[str, Any], int], tuple[Vocabulary, Callable[[Split], Iterator[Example]]]
    ]
    baselines: Callable[[Mapping[str, Any]], dict[str, float]]


def splits(section: Mapping[str, Any]) -> list[Split]:
    """Return the parts of a task's data.

    Args:
        section: of the task.

    Returns:
        Training, validation, then a test split per factor.
    """
    return [
        Split("train", 1, section["train"]),
        Split("validation", 1, section["validation"]),
        *(Split("test", factor, section["test"]) for factor in section["test_factors"]),
    ]
