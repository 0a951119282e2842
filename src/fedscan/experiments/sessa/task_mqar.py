"""Task ``mqar``: diffuse associative recall at lags up to several times those of training."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedscan.data.associative_recall import Recall, sequence
from fedscan.experiments.sessa.example import Example, Split, Task, Vocabulary
from fedscan.seeds import generator


def sizes(section: Mapping[str, Any]) -> Recall:
    """Return the sizes of the task.

    Args:
        section: ``sessa.tasks.mqar``.
    """
    return Recall(*(section[name] for name in Recall._fields))


def make(
    section: Mapping[str, Any], seed: int
) -> tuple[Vocabulary, Callable[[Split], Iterator[Example]]]:
    """Return the vocabulary and the maker of a split.

    Args:
        section: ``sessa.tasks.mqar``.
        seed: root seed.

    Returns:
        Marks, keys and values; split -> examples. Answers may be any id.
    """
    task = sizes(section)
    low, high = section["lag"]

    def examples(split: Split) -> Iterator[Example]:
        for index in range(split.count):
            stream = generator(seed, "mqar", split.name, split.factor, index)
            found = sequence(task, split.factor * low, split.factor * high, stream)
            wanted = np.flatnonzero(found.targets)
            # A token is predicted at the position before it.
            yield Example(
                found.tokens,
                wanted - 1,
                found.tokens[wanted],
                np.repeat(found.lags, task.value_tokens),
            )

    return Vocabulary(task.vocabulary, 0, task.vocabulary - 1, "mqar"), examples


def baselines(section: Mapping[str, Any]) -> dict[str, float]:
    """Return the token accuracy of any value, and of any value that is stored.

    Args:
        section: ``sessa.tasks.mqar``.
    """
    task = sizes(section)
    return {"chance": 1 / task.values, "stored_value": task.guess}


MQAR = Task(make, baselines)
