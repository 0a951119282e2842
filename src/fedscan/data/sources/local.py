"""Records from the user's files (.jsonl, .jsonl.zst, .jsonl.gz, .parquet) in SlimPajama's schema.

Lines are parsed one by one rather than by a bulk JSON reader: one bad line is then named by file
and line, a null ``meta`` at the head of a file does no harm, and a zstd frame cut at a block
boundary, which bulk readers take for the end of the data, is an error.
"""

import glob
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from fedscan.data.records import Record, classify, parse_line

SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz", ".json.gz", ".zst", ".parquet")
BLOCK = 1 << 20
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def records(
    domains: Sequence[str], seed: int, position: object = None, *, paths: Sequence[str]
) -> Iterator[Record]:
    """Yield the records of all files, in sorted file order.

    Args:
        domains: ignored; a record names its domain.
        seed: ignored; the order is that of the files.
        position: ignored; reading starts at the first file.
        paths: files, folders (searched recursively) or globs.

    Yields:
        One classified record per line or row.

    Raises:
        ValueError: for a path without files, a damaged file or a record outside the schema; the
            message names file and line or row.
    """
    del domains, seed, position
    for file in find_files(paths):
        yield from _parquet(file) if file.suffix == ".parquet" else _lines(file)


def find_files(paths: Sequence[str]) -> list[Path]:
    """Return the data files that ``paths`` name, sorted, each once.

    Args:
        paths: files, folders or globs (``**`` matches any depth).

    Returns:
        Existing files with a known suffix.

    Raises:
        ValueError: if a path matches no data file.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path:
            raise ValueError("data.local.paths: '' names nothing; '.' is the working folder")
        given = expanded(path, "data.local.paths")
        if given.is_file():
            matches = [given]
        elif given.is_dir():
            matches = [file for file in given.rglob("*") if file.is_file()]
        else:
            matches = [Path(name) for name in glob.glob(str(given), recursive=True)]
        usable = [file for file in matches if file.is_file() and file.name.endswith(SUFFIXES)]
        if not usable:
            what = "has a name fedscan reads" if matches else "exists"
            raise ValueError(
                f"data.local.paths: {path!r}: no file {what}; expected a folder or glob of"
                f" {', '.join(SUFFIXES)} files, or one of them"
            )
        # By what they are: a file read under two names would be in training and validation text.
        for file in sorted(usable):
            found.setdefault(file.resolve(), file)
    return sorted(found.values())


def expanded(path: str, key: str) -> Path:
    """Return a path with its ``~`` replaced by the home folder.

    Args:
        path: as the user gave it.
        key: of the configuration, for the error.

    Returns:
        The path.

    Raises:
        ValueError: if there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{key}: {path!r}: {error}") from None


def _lines(file: Path) -> Iterator[Record]:
    number, rest = 0, b""
    for block in _blocks(file):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            yield from _record(file, number, line)
    yield from _record(file, number + 1, rest)


def _record(file: Path, number: int, line: bytes) -> Iterator[Record]:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.strip():
        return
    try:
        yield parse_line(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}:{number}: not UTF-8 ({error.reason})") from None
    except ValueError as error:
        raise ValueError(f"{file}:{number}: {error}") from None


def _blocks(file: Path) -> Iterator[bytes]:
    """Yield the decompressed content in blocks, so that memory does not grow with the file."""
    try:
        with file.open("rb") as stream:
            head = stream.read(len(LFS_POINTER))
            if head == LFS_POINTER:
                raise ValueError(f"{file}: a Git LFS pointer, not the data; run 'git lfs pull'")
            stream.seek(0)
            if file.name.endswith(".zst"):
                yield from _zstd_blocks(file, stream)
            elif file.name.endswith(".gz"):
                yield from _gzip_blocks(file, stream)
            else:
                yield from iter(lambda: stream.read(BLOCK), b"")
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error})") from None


def _zstd_blocks(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor()
    frame, started = decompressor.decompressobj(), False
    while data := stream.read(BLOCK):
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


def _gzip_blocks(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    member, started = zlib.decompressobj(wbits=31), False
    while data := stream.read(BLOCK):
        while data:
            started = True
            try:
                yield member.decompress(data)
            except zlib.error as error:
                raise ValueError(f"{file}: not valid gzip data ({error})") from None
            data = member.unused_data if member.eof else b""
            if member.eof:
                member, started = zlib.decompressobj(wbits=31), False
    if started:
        raise ValueError(f"{file}: truncated: its last gzip member is not finished; fetch it again")


def _parquet(file: Path) -> Iterator[Record]:
    row = 0
    try:
        with pq.ParquetFile(file) as parquet:
            missing = {"text", "meta"} - set(parquet.schema_arrow.names)
            if missing:
                names = ", ".join(parquet.schema_arrow.names)
                raise ValueError(f"{file}: no column {sorted(missing)[0]!r}; its columns: {names}")
            for batch in parquet.iter_batches(batch_size=1024, columns=["text", "meta"]):
                for item in batch.to_pylist():
                    row += 1
                    try:
                        yield classify(item["text"], item["meta"])
                    except ValueError as error:
                        raise ValueError(f"{file}: row {row}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a whole Parquet file (after row {row}: {error})") from None
