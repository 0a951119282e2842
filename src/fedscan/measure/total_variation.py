"""Exact total variation between clients' data and the pooled data, on three scales."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Distances(NamedTuple):
    """Total variation of every client to the pooled distribution; arrays over clients."""

    sequence: np.ndarray  # over whole sequences: the distance of Lemma B.4
    bigram: np.ndarray  # over pairs of consecutive tokens
    unigram: np.ndarray  # over tokens


def distances(shards: Sequence[np.ndarray], weights: Sequence[float], d_input: int) -> Distances:
    """Measure how clients' empirical distributions differ from their mixture.

    Args:
        shards: per client (sequences, length) tokens below ``d_input``.
        weights: p_k, summing to one.
        d_input: number of tokens D.

    Returns:
        Exact distances in [0, 1].
    """
    together = np.concatenate(list(shards))
    _, index = np.unique(together, axis=0, return_inverse=True)
    index = index.reshape(-1)
    cuts = np.cumsum([len(shard) for shard in shards])[:-1]
    whole = _counts(np.split(index, cuts), int(index.max()) + 1)
    pairs = [shard[:, :-1].astype(np.int64) * d_input + shard[:, 1:] for shard in shards]
    return Distances(
        *(
            _to_mixture(counts, np.asarray(weights, float))
            for counts in (
                whole,
                _counts(pairs, d_input**2),
                _counts(shards, d_input),
            )
        )
    )


def _counts(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    return np.stack([np.bincount(part.ravel(), minlength=size) for part in parts]).astype(float)


def _to_mixture(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.abs(shares - weights @ shares).sum(axis=1) / 2)
