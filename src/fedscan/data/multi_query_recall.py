"""Multi-query associative recall, the task readers know from Arora et al. (2023, "Zoology").

Key-value pairs stand first; every key is asked once later, at a gap from the pairs that follows a
power law, so that most queries come early and some late. The answer is the value, to be predicted
at the query. The definition is theirs, the generator ours.
"""

from typing import NamedTuple

import numpy as np

FILLER = 0


class Recalled(NamedTuple):
    """One sequence.

    Attributes:
        tokens: (length) int64.
        answers: value to be predicted at each position; -1 where nothing is, (length) int64.
    """

    tokens: np.ndarray
    answers: np.ndarray


def sequence(
    length: int, pairs: int, vocabulary: int, power: float, stream: np.random.Generator
) -> Recalled:
    """Draw a sequence.

    Args:
        length: tokens, even.
        pairs: key-value pairs; each is asked once.
        vocabulary: symbols; 0 is the filler, the first half keys, the second half values.
        power: a > 0 of the density a x^(a-1) of the gaps; below 1 early queries are likelier.
        stream: source of randomness.

    Returns:
        Tokens and answers.

    Raises:
        ValueError: if pairs and queries do not fit, or there are too few keys.
    """
    half, slots = vocabulary // 2, (length - 2 * pairs) // 2
    if slots < pairs:
        raise ValueError(f"{pairs} pairs and their queries need {4 * pairs} tokens, not {length}")
    if half - 1 < pairs:
        raise ValueError(f"vocabulary {vocabulary} has {half - 1} keys for {pairs} pairs")
    keys = 1 + stream.permutation(half - 1)[:pairs]
    values = half + stream.integers(vocabulary - half, size=pairs)
    tokens = np.full(length, FILLER)
    answers = np.full(length, -1)
    tokens[: 2 * pairs : 2], tokens[1 : 2 * pairs : 2] = keys, values
    density = power * np.arange(1, slots + 1) ** (power - 1)
    gaps = stream.choice(slots, size=pairs, replace=False, p=density / density.sum())
    # Two places a query, so that the value could stand behind it.
    places = 2 * pairs + 2 * gaps
    tokens[places], answers[places] = keys, values
    return Recalled(tokens, answers)
