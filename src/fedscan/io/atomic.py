"""Write a file whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; on success flush it to disk and rename it into place.

    A kill at any moment leaves either the previous file or the new one, never a part. On an
    exception the temporary file is removed and the previous file stays. The umask decides who may
    read the file, whatever mode the library that writes it chooses (safetensors: 0600).

    Args:
        path: final name; its folder is created.

    Yields:
        The name to write to, in the same folder (renames across file systems are not atomic).

    Raises:
        OSError: names ``path`` and the reason: no space, no permission, a read-only file system.
    """
    final = Path(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.unlink(missing_ok=True)
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            if temporary.stat().st_mode != mode:
                temporary.chmod(mode)
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(final)
            _sync_folder(final.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"{final} could not be written: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself, which lives in the folder's entry."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all.

    Args:
        path: final name.
        text: content.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
