"""What a tokenizer offers to the rest of the package."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Tokenizer(NamedTuple):
    """Text to token ids.

    ``encode`` takes one document and returns its ids, a uint16 array, without an end-of-sequence
    token; ``head`` returns its first ids only, in time that does not grow with the document;
    ``decode`` is the inverse of ``encode`` up to bytes that are not UTF-8. ``sha256`` identifies
    the vocabulary.
    """

    name: str
    encode: Callable[[str], np.ndarray]
    head: Callable[[str, int], np.ndarray]
    decode: Callable[[np.ndarray], str]
    vocab_size: int
    eos: int
    sha256: str
