"""Numbers too small for full precision, which some processors compute many times more slowly."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Compute with zero in their place, in this thread, until the end; also as a decorator.

    States of short memory decay through them (float32: below 1.2e-38) and made a training step of
    the analysed layer up to 14 times as long. Where the processor cannot, nothing changes.

    Yields:
        Nothing.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
