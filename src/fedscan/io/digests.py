"""Digests of arrays and files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np


def arrays_sha256(parts: Iterable[np.ndarray]) -> str:
    """Return the digest of arrays, shapes included.

    Args:
        parts: arrays of one fixed dtype.

    Returns:
        Hexadecimal SHA-256.
    """
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(repr(part.shape).encode())
        hasher.update(np.ascontiguousarray(part).tobytes())
    return hasher.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the digest of a file.

    Args:
        path: the file.

    Returns:
        Hexadecimal SHA-256.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
