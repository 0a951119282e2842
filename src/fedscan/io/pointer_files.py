"""Refuse files that are pointers to the data, before a reader calls them damaged."""

import os

from fedscan.io.lfs import POINTER_MESSAGE, is_pointer


def refuse_pointer(path: str | os.PathLike[str]) -> None:
    """Refuse a Git LFS pointer; a file that cannot be read is left to its reader.

    Args:
        path: file of any kind.

    Raises:
        ValueError: if the file is a pointer.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError:
        return
    if is_pointer(head):
        raise ValueError(f"{os.fspath(path)}: {POINTER_MESSAGE}")
