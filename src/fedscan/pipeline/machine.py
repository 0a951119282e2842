"""Properties of the process that change speed, and devices that must be there."""

import ctypes

# glibc's malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let glibc reuse freed tensors instead of returning them to the kernel.

    Every large tensor otherwise costs a page fault per 4 KiB: a quarter of a training step of the
    paper's model. Changes speed only; other C libraries are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def require_device(device: str, section: str) -> None:
    """Refuse a device that is not there; to be called once a place is held.

    Args:
        device: the section's device.
        section: section of the configuration that names it.

    Raises:
        ValueError: if it is CUDA and torch finds none.
    """
    if device != "cuda":
        return
    # Imported here: it takes seconds, and asking for a place needs none of it.
    import torch

    if not torch.cuda.is_available():
        raise ValueError(f"{section}.device is cuda and this machine has no CUDA device")
