"""Task ``recall``: the field's own multi-query associative recall, over numbers of pairs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedscan.data.multi_query_recall import sequence
from fedscan.experiments.sessa.example import Example, Split, Task, Vocabulary
from fedscan.seeds import generator


def make(
    section: Mapping[str, Any], seed: int
) -> tuple[Vocabulary, Callable[[Split], Iterator[Example]]]:
    """Return the vocabulary and the maker of a split.

    Args:
        section: ``sessa.tasks.recall``.
        seed: root seed.

    Returns:
        Filler, keys and values; split -> examples, the numbers of pairs in turn.
    """
    size, counts = section["vocabulary"], section["pairs"]

    def examples(split: Split) -> Iterator[Example]:
        length = section["sequence_length"] * split.factor
        for index in range(split.count):
            stream = generator(seed, "recall", split.name, split.factor, index)
            pairs = counts[index % len(counts)]
            found = sequence(length, pairs, size, section["power"], stream)
            places = np.flatnonzero(found.answers >= 0)
            stored = {int(key): at for at, key in enumerate(found.tokens[: 2 * pairs : 2])}
            values = [2 * stored[int(found.tokens[place])] + 1 for place in places]
            yield Example(
                found.tokens, places, found.answers[places], places - np.array(values), pairs=pairs
            )

    return Vocabulary(size, 0, size - 1, "recall"), examples


def baselines(section: Mapping[str, Any]) -> dict[str, float]:
    """Return the accuracy of any value, and of any stored one, over the numbers of pairs.

    Args:
        section: ``sessa.tasks.recall``.
    """
    values = section["vocabulary"] - section["vocabulary"] // 2
    answers = sum(section["pairs"])
    # A stored value is right once in `pairs`, and by accident.
    guess = sum(pairs * (1 / pairs + (1 - 1 / pairs) / values) for pairs in section["pairs"])
    return {"chance": 1 / values, "stored_value": guess / answers}


RECALL = Task(make, baselines)
