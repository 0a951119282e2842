"""A folder laid out like a dataset of the hub, before the library that reads it sees it."""

from pathlib import Path

from fedscan.data.sources.blocks import HEAD_BYTES
from fedscan.io.lfs import POINTER_MESSAGE, is_pointer

# A pointer is three short lines.
POINTER_BYTES = 1024


def refuse_pointers(place: str) -> None:
    """Refuse a clone whose data was not fetched; the library would call the pointers damaged.

    Args:
        place: folder, or the name of a dataset of the hub, of which nothing is known here.

    Raises:
        ValueError: if a file below the folder is a Git LFS pointer; names it.
    """
    folder = Path(place)
    if not folder.is_dir():
        return
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.stat().st_size <= POINTER_BYTES:
            with file.open("rb") as stream:
                if is_pointer(stream.read(HEAD_BYTES)):
                    raise ValueError(f"{file}: {POINTER_MESSAGE}")
