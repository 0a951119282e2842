"""The tokens an iteration starts from: ids of a draw, or tokens of a given mean cosine."""

import math

import numpy as np

from fedscan.seeds import generator


def uniform_ids(seed: int, draws: range, tokens: int, vocabulary: int) -> np.ndarray:
    """Draw token ids uniformly, with replacement; the same for every model and variant.

    Args:
        seed: root seed.
        draws: which draws; a further one changes no other.
        tokens: per draw.
        vocabulary: ids are below it.

    Returns:
        (draws, tokens) int64.
    """
    rows = [
        generator(seed, "consensus tokens", draw).integers(vocabulary, size=tokens)
        for draw in draws
    ]
    return np.stack(rows)


def text_ids(seed: int, draws: range, tokens: int, sequences: np.ndarray) -> np.ndarray:
    """Take the first tokens of sequences that are chosen without replacement.

    Args:
        seed: root seed.
        draws: which draws; a further one changes no other.
        tokens: per draw.
        sequences: (count, length) token ids.

    Returns:
        (draws, tokens) int64.

    Raises:
        ValueError: if there are fewer sequences than draws, or they are shorter.
    """
    count, length = sequences.shape
    if draws.stop > count or tokens > length:
        raise ValueError(
            f"{draws.stop} draws of {tokens} tokens need as many sequences of that length; the"
            f" validation text has {count} of {length} tokens"
        )
    order = generator(seed, "consensus text").permutation(count)
    return sequences[order[draws.start : draws.stop], :tokens].astype(np.int64)


def alike(seed: int, draws: range, tokens: int, channels: int, mean_cosine: float) -> np.ndarray:
    """Draw tokens x + sqrt(c / (1 - c)) v with x and one common v normal.

    Args:
        seed: root seed.
        draws: which draws.
        tokens: per draw.
        channels: n.
        mean_cosine: c, the expected cosine of two tokens (exactly so for many channels).

    Returns:
        (draws, tokens, channels) float64.
    """
    share = math.sqrt(mean_cosine / (1 - mean_cosine))
    rows = []
    for draw in draws:
        stream = generator(seed, "consensus start", draw)
        common = stream.standard_normal(channels)
        rows.append(stream.standard_normal((tokens, channels)) + share * common)
    return np.stack(rows)
