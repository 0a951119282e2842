"""The decompressed content of a file in blocks, so that memory does not grow with the file."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from fedscan.io.lfs import POINTER_MESSAGE, is_pointer

BLOCK = 1 << 20
# Of compressed data at a time: what comes out may be a thousand times as much.
COMPRESSED_BLOCK = 1 << 16
# The longest that zstd writes (--ultra --long=31); memory is taken only by frames that need it.
LONGEST_WINDOW = 1 << 31
HEAD_BYTES = 64
# Longer marks first: that of UTF-32 begins with that of UTF-16.
OTHER_TEXT = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
# First bytes -> what a file is, and the ending that its name should have.
KINDS = {
    b"\x1f\x8b": ("gzip data", ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd data", ".zst"),
    b"PAR1": ("a Parquet file", ".parquet"),
}


def blocks(file: Path) -> Iterator[bytes]:
    """Yield a file's content, decompressed by the ending of its name (.zst, .gz, other).

    Args:
        file: file to read.

    Yields:
        Blocks of any size.

    Raises:
        ValueError: if the file cannot be read, is cut or damaged, or no data at all.
    """
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
            refuse_no_text(file, head)
            _refuse_other_kinds(file, head)
            stream.seek(0)
            if file.name.endswith(".zst"):
                yield from _zstd(file, stream)
            elif file.name.endswith(".gz"):
                yield from _gzip(file, stream)
            else:
                yield from iter(lambda: stream.read(BLOCK), b"")
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error})") from None


def refuse_no_text(file: Path, head: bytes) -> None:
    """Refuse what stands where UTF-8 text or data should be, with what to do.

    Args:
        file: for the error.
        head: first bytes of the file, a pointer's at least.

    Raises:
        ValueError: for a Git LFS pointer, UTF-16 or UTF-32 text.
    """
    if is_pointer(head):
        raise ValueError(f"{file}: {POINTER_MESSAGE}")
    for mark, name in OTHER_TEXT.items():
        if head.startswith(mark):
            how = f"iconv -f {name} -t UTF-8 OLD > NEW"
            raise ValueError(f"{file}: {name} text; convert it: {how}")


def _refuse_other_kinds(file: Path, head: bytes) -> None:
    if not head and file.name.endswith((".gz", ".zst")):
        raise ValueError(f"{file}: truncated: it is empty; fetch it again")
    for first, (what, ending) in KINDS.items():
        if head.startswith(first) and not file.name.endswith(ending):
            raise ValueError(f"{file}: {what}; its name should end in {ending}")


def _zstd(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=LONGEST_WINDOW)
    frame, started = decompressor.decompressobj(), False
    while data := stream.read(COMPRESSED_BLOCK):
        while data:
            started = True
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                raise ValueError(f"{file}: not valid zstd data ({error})") from None
            data = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame, started = decompressor.decompressobj(), False
    if started:
        raise ValueError(f"{file}: truncated: its last zstd frame is not finished; fetch it again")


def _gzip(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    member, started, first = zlib.decompressobj(wbits=31), False, True
    while data := stream.read(COMPRESSED_BLOCK):
        while data:
            # Zeros after a member are padding, as gzip takes them.
            if not (started or first) and not (data := data.lstrip(b"\0")):
                break
            started = True
            try:
                yield member.decompress(data)
            except zlib.error as error:
                raise ValueError(f"{file}: not valid gzip data ({error})") from None
            data = member.unused_data if member.eof else b""
            if member.eof:
                member, started, first = zlib.decompressobj(wbits=31), False, False
    if started:
        raise ValueError(f"{file}: truncated: its last gzip member is not finished; fetch it again")
