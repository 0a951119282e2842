"""From tokenised documents to fixed-length sequences.

Documents, not windows, are split into training and validation, before packing: no document is on
both sides. Documents of a split are joined, each followed by the end-of-sequence token, and cut
into sequences; the tail is dropped, never padded.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Packed(NamedTuple):
    """Sequences of one domain, each array (sequences, sequence_length) uint16."""

    train: np.ndarray
    validation: np.ndarray


def pack(documents: Sequence[np.ndarray], sequence_length: int, eos: int) -> np.ndarray:
    """Join documents, end each with ``eos`` and cut into sequences.

    Args:
        documents: token ids, one uint16 array per document.
        sequence_length: tokens per sequence S.
        eos: end-of-sequence token.

    Returns:
        (sequences, sequence_length) uint16; the last incomplete sequence is dropped.
    """
    separator = np.array([eos], dtype=np.uint16)
    parts = [part for document in documents for part in (document, separator)]
    stream = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)
    count = len(stream) // sequence_length
    return stream[: count * sequence_length].astype(np.uint16).reshape(count, sequence_length)


def split_and_pack(
    documents: Sequence[np.ndarray],
    sequence_length: int,
    eos: int,
    train_share: Fraction,
    limit: int,
    generator: np.random.Generator,
) -> Packed:
    """Shuffle documents, split them into validation and training, and pack both.

    Validation takes documents until it has its share of the sequences; training takes the rest.
    Both are then trimmed to the largest pool that has exactly the wanted shares.

    Args:
        documents: token ids, one uint16 array per document.
        sequence_length: tokens per sequence S.
        eos: end-of-sequence token.
        train_share: share of the sequences used for training, in (0, 1).
        limit: largest pool, sequences of both splits together.
        generator: stream that shuffles the documents.

    Returns:
        Training and validation sequences; ``floor(train_share * pool)`` and the rest of the pool.
    """
    shuffled = [documents[index] for index in generator.permutation(len(documents))]
    available = sum(len(document) + 1 for document in shuffled) // sequence_length
    pool = min(limit, available)
    needed = (pool - int(train_share * pool)) * sequence_length
    taken = split = 0
    while split < len(shuffled) and taken < needed:
        taken += len(shuffled[split]) + 1
        split += 1
    validation = pack(shuffled[:split], sequence_length, eos)
    train = pack(shuffled[split:], sequence_length, eos)
    pool = pool_size(len(train), len(validation), train_share, limit)
    train_count = int(train_share * pool)
    return Packed(train[:train_count], validation[: pool - train_count])


def pool_size(train: int, validation: int, train_share: Fraction, limit: int) -> int:
    """Return the largest pool whose two shares fit into what there is.

    Args:
        train: training sequences available.
        validation: validation sequences available.
        train_share: share of the pool used for training.
        limit: largest pool wanted.

    Returns:
        The largest p <= limit with floor(train_share p) <= train and the rest <= validation.
    """
    pool = min(limit, train + validation)
    while pool and (int(train_share * pool) > train or pool - int(train_share * pool) > validation):
        pool -= 1
    return pool
