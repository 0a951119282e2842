"""Named random streams: the only source of randomness in fedscan.

A stream is identified by a root seed, a purpose and named axes (client, round, domain, ...). The
algorithm and its hyperparameters are never axes, so that all methods see the same initial model,
batches and cohorts. Derivation is a hash, so streams do not depend on the order in which they are
asked for, and none has to be stored in a checkpoint.
"""

import hashlib
import json

import numpy as np


def derive(root: int, purpose: str, *axes: int | str) -> int:
    """Return the 63-bit seed of the stream (root, purpose, axes).

    Args:
        root: seed of the run or of the data, as written in the configuration.
        purpose: what the stream is for, e.g. ``"batches"``.
        *axes: what distinguishes streams of one purpose, e.g. client and round.

    Returns:
        An integer in [0, 2**63), the same on every platform and Python version.

    Raises:
        TypeError: if an axis is neither an int nor a str (floats have several spellings).
    """
    for part in (root, *axes):
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise TypeError(f"seed axis must be int or str, got {type(part).__name__} {part!r}")
    text = json.dumps([root, purpose, *axes], ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode("ascii"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(root: int, purpose: str, *axes: int | str) -> np.random.Generator:
    """Return a fresh NumPy PCG64 generator for the stream (root, purpose, axes).

    Args:
        root: seed of the run or of the data.
        purpose: what the stream is for.
        *axes: what distinguishes streams of one purpose.

    Returns:
        A generator whose draws depend on nothing but the arguments (and NumPy's version).
    """
    return np.random.Generator(np.random.PCG64(derive(root, purpose, *axes)))
