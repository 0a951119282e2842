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


def first_tokens(tokenizer: Tokenizer, text: str, most: int, place: str) -> np.ndarray:
    """Return the first ids of a text, or say which text it was that could not be tokenised.

    Args:
        tokenizer: text to ids.
        text: document.
        most: ids at most.
        place: where the text stands.

    Returns:
        Ids, uint16.

    Raises:
        ValueError: if the tokenizer fails, in whatever way; names the place.
    """
    try:
        return tokenizer.head(text, most)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a library written in Rust may panic, which is no Exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"{place}: the text cannot be tokenised ({reason})") from error
