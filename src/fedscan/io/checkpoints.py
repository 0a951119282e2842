"""Checkpoints: named arrays and a JSON record in one safetensors file, replaced atomically.

Model, optimiser state and round counter live in one file, so that no kill can leave a model of one
round beside the counter of another. safetensors never executes code when loading, and a checksum
over everything refuses what a disk has changed: training on would give a wrong result, silently.
"""

import errno
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedscan.io.atomic import replacing
from fedscan.io.pointer_files import refuse_pointer

FORMAT = "fedscan-2"


def save(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], record: Any) -> None:
    """Write ``arrays`` and ``record``, whole or not at all.

    Args:
        path: file to write.
        arrays: name -> array.
        record: JSON-like data; NaN and infinities are allowed.

    Raises:
        OSError: if it cannot be written.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(record, sort_keys=True)
    # One key: safetensors writes several in an order that changes from run to run.
    metadata = {FORMAT: f"{_checksum(contiguous, text)} {text}"}
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata=metadata)
        except SafetensorError as error:  # its word for a full disk too
            raise OSError(errno.EIO, str(error)) from error


def load(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], Any]:
    """Read a checkpoint.

    Args:
        path: file written by ``save``.

    Returns:
        The arrays and the record.

    Raises:
        ValueError: if the file is damaged, a Git LFS pointer, or was not written by fedscan.
    """
    if Path(path).is_dir():
        raise ValueError(f"{path}: a folder, where a checkpoint should be; remove it")
    refuse_pointer(path)
    try:
        with safe_open(Path(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged checkpoint ({error}); delete it to start over") from None
    if FORMAT not in metadata:
        raise ValueError(f"{path}: not a checkpoint of format {FORMAT!r}; its keys: {[*metadata]}")
    checksum, _, text = metadata[FORMAT].partition(" ")
    if checksum != _checksum(arrays, text):
        raise ValueError(f"{path}: damaged checkpoint (wrong checksum); delete it to start over")
    return arrays, json.loads(text)


def holds(path: str | os.PathLike[str], facts: Mapping[str, Any]) -> bool:
    """Tell whether a file is a whole checkpoint whose record has certain facts.

    Only the file's header is read, which has its length: values that a disk changed are ``load``'s
    to find.

    Args:
        path: file; may be missing.
        facts: name -> what the record must have there.

    Returns:
        False too if the file is missing, cut short or no checkpoint.
    """
    try:
        with safe_open(Path(path), framework="numpy") as file:
            text = (file.metadata() or {})[FORMAT].partition(" ")[2]
        record = json.loads(text)
        return all(record[name] == value for name, value in facts.items())
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return False


def _checksum(arrays: Mapping[str, np.ndarray], text: str) -> str:
    """Return the CRC-32 of names, types, shapes, values and record: fast, and not for security."""
    found = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = zlib.crc32(array.reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"
