"""The 256 byte values and an end-of-sequence token."""

import hashlib

import numpy as np

from fedscan.data.tokenizer import Tokenizer

EOS = 256


def load() -> Tokenizer:
    """Return the byte tokenizer: UTF-8 bytes are ids 0..255, end of sequence is 256.

    Returns:
        A tokenizer that needs no files.
    """
    sha256 = hashlib.sha256(b"bytes+eos").hexdigest()
    return Tokenizer("bytes", _encode, _head, _decode, 257, EOS, sha256)


def _encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.uint16)


def _head(text: str, count: int) -> np.ndarray:
    # A character is at least one byte.
    return _encode(text[:count])[:count]


def _decode(ids: np.ndarray) -> str:
    text = np.asarray(ids)
    return text[text != EOS].astype(np.uint8).tobytes().decode("utf-8", "replace")
