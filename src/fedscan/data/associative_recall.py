"""Diffuse associative recall: pairs to remember, noise that looks like them, queries at the end.

Task of Horbatko, "Sessa: Selective State Space Attention", whose generator was not released; what
is exact here is ours. A sequence is

    <bos>  P x [<key> k_1..k_m <val> v_1..v_n]  <noise> N tokens  <query>  Q x [<key> k.. <val> v..]

The lag of a query is the distance from the position that predicts its first value, its <val>, to
the first value that was stored; N is drawn so that every lag of a sequence lies in a given range.
"""

from typing import NamedTuple

import numpy as np

BOS, KEY, VAL, NOISE, QUERY = range(5)
SPECIAL = 5


class Recall(NamedTuple):
    """Sizes of the task.

    Attributes:
        pairs: P, stored pairs.
        queries: Q, at most P.
        key_tokens: m, at least 2: a distractor shares a prefix.
        value_tokens: n.
        keys: key symbols.
        values: value symbols.
        distractor_share: probability that noise begins a distractor where one fits.
    """

    pairs: int
    queries: int
    key_tokens: int
    value_tokens: int
    keys: int
    values: int
    distractor_share: float

    @property
    def width(self) -> int:
        """Tokens of a pair with its marks."""
        return self.key_tokens + self.value_tokens + 2

    @property
    def vocabulary(self) -> int:
        """Symbols: marks, then keys, then values."""
        return SPECIAL + self.keys + self.values

    @property
    def guess(self) -> float:
        """Token accuracy of answering any of the stored values."""
        return 1 / self.pairs + (1 - 1 / self.pairs) / self.values


class Sequence(NamedTuple):
    """One sequence.

    Attributes:
        tokens: (length) int64.
        targets: (length) bool: the value tokens of the queries, to be predicted.
        lags: of the queries, in their order, (queries).
    """

    tokens: np.ndarray
    targets: np.ndarray
    lags: np.ndarray


def noise_range(sizes: Recall, low: int, high: int) -> tuple[int, int]:
    """Return how many noise tokens put every lag into a range.

    Args:
        sizes: of the task.
        low: smallest lag.
        high: largest lag.

    Returns:
        Fewest and most, both included.

    Raises:
        ValueError: if the range is too narrow, or begins too early; says what would do.
    """
    nearest = sizes.width + 1
    spread = (sizes.pairs + sizes.queries - 2) * sizes.width
    if low < nearest:
        raise ValueError(f"lag from {low}: the nearest possible is {nearest}")
    if high - low < spread:
        raise ValueError(
            f"lags {low} to {high}: those of one sequence alone span {spread} positions"
        )
    return low - nearest, high - spread - nearest


def sequence(sizes: Recall, low: int, high: int, stream: np.random.Generator) -> Sequence:
    """Draw a sequence.

    Args:
        sizes: of the task.
        low: smallest lag.
        high: largest lag.
        stream: source of randomness.

    Returns:
        Tokens, what is to be predicted, and lags.
    """
    fewest, most = noise_range(sizes, low, high)
    keys = _distinct_keys(sizes, stream)
    values = (
        SPECIAL + sizes.keys + stream.integers(sizes.values, size=(sizes.pairs, sizes.value_tokens))
    )
    count = int(stream.integers(fewest, most + 1))
    asked = stream.permutation(sizes.pairs)[: sizes.queries]
    tokens = [BOS]
    for key, value in zip(keys, values, strict=True):
        tokens += [KEY, *key, VAL, *value.tolist()]
    tokens += [NOISE, *_noise(sizes, count, keys, stream), QUERY]
    targets = np.zeros(len(tokens) + sizes.queries * sizes.width, bool)
    lags = []
    for pair in asked:
        marked = len(tokens) + sizes.key_tokens + 1
        stored = 1 + int(pair) * sizes.width + sizes.key_tokens + 2
        lags.append(marked - stored)
        targets[marked + 1 : marked + 1 + sizes.value_tokens] = True
        tokens += [KEY, *keys[pair], VAL, *values[pair].tolist()]
    return Sequence(np.array(tokens), targets, np.array(lags))


def _distinct_keys(sizes: Recall, stream: np.random.Generator) -> list[tuple[int, ...]]:
    found: dict[tuple[int, ...], None] = {}
    while len(found) < sizes.pairs:
        key = stream.integers(sizes.keys, size=sizes.key_tokens) + SPECIAL
        found[tuple(key.tolist())] = None
    return list(found)


def _noise(
    sizes: Recall, count: int, keys: list[tuple[int, ...]], stream: np.random.Generator
) -> list[int]:
    """Draw fillers from all symbols, and pairs whose key is a stored one's up to a prefix."""
    tokens: list[int] = []
    while len(tokens) < count:
        fits = count - len(tokens) >= sizes.width
        if fits and stream.random() < sizes.distractor_share:
            value = SPECIAL + sizes.keys + stream.integers(sizes.values, size=sizes.value_tokens)
            tokens += [KEY, *_near_key(sizes, keys, stream), VAL, *value.tolist()]
        else:
            tokens.append(SPECIAL + int(stream.integers(sizes.keys + sizes.values)))
    return tokens


def _near_key(
    sizes: Recall, keys: list[tuple[int, ...]], stream: np.random.Generator
) -> tuple[int, ...]:
    """Draw a key that is not stored and shares the first symbols of one that is."""
    while True:
        stored = keys[int(stream.integers(len(keys)))]
        shared = int(stream.integers(1, sizes.key_tokens))
        other = (stored[shared] - SPECIAL + 1 + int(stream.integers(sizes.keys - 1))) % sizes.keys
        rest = stream.integers(sizes.keys, size=sizes.key_tokens - shared - 1) + SPECIAL
        key = (*stored[:shared], SPECIAL + other, *rest.tolist())
        if key not in keys:
            return key
