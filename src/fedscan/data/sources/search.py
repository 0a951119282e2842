"""Data files below folders and globs.

Names that begin with '.' or '_' are left out, as data tools do: editors, notebooks, file systems
and distributed writers leave copies and notes under such names (``.ipynb_checkpoints``, ``._x``,
``_temporary``). Named directly they are read.
"""

import fnmatch
import glob
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz", ".json.gz", ".zst", ".parquet")
LEFT_OUT = (".", "_")


class Found(NamedTuple):
    """Files to read, and files with a known suffix that were left out; both sorted."""

    files: list[Path]
    left_out: list[Path]


def search(paths: Sequence[str]) -> Found:
    """Return the data files that ``paths`` name, sorted, each once.

    Args:
        paths: files, folders or globs (``**`` matches any depth).

    Returns:
        Existing files with a known suffix.

    Raises:
        ValueError: if a path matches no data file.
    """
    found: dict[Path, Path] = {}
    left_out: dict[Path, Path] = {}
    for path in paths:
        if not path:
            raise ValueError("data.local.paths: '' names nothing; '.' is the working folder")
        usable, hidden, matched = _of_path(expanded(path, "data.local.paths"))
        if not usable:
            raise ValueError(f"data.local.paths: {path!r}: {_nothing(matched, len(hidden))}")
        # By what they are: a file read under two names would be in training and validation text.
        for file in sorted(usable):
            found.setdefault(file.resolve(), file)
        left_out |= {file.resolve(): file for file in hidden}
    kept = [file for target, file in left_out.items() if target not in found]
    return Found(sorted(found.values()), sorted(kept))


def _of_path(given: Path) -> tuple[list[Path], list[Path], bool]:
    """Return data files, those left out, and whether there was anything at all."""
    if given.is_file():
        return _with_suffix([given]), [], True
    if given.is_dir():
        matches = list(given.rglob("*"))
        hidden = {file for file in matches if _begins(file.relative_to(given).parts)}
    else:
        # Hidden names too, so that they are counted.
        names = glob.glob(str(given), recursive=True, include_hidden=True)
        matches = [Path(name) for name in names]
        # Distributed writers make folders called x.parquet.
        named = [path for path in matches if path.is_dir() and path.name.endswith(SUFFIXES)]
        matches += [file for path in named for file in path.rglob("*")]
        wanted = [part for part in given.parts if _begins([part])]
        hidden = {file for file in matches if _begins(_unnamed(file.parts, wanted))}
    usable = _with_suffix(file for file in matches if file not in hidden)
    return usable, _with_suffix(hidden), bool(matches)


def _begins(parts: Iterable[str]) -> bool:
    return any(part.startswith(LEFT_OUT) and part not in (".", "..") for part in parts)


def _unnamed(parts: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the parts of a match that the pattern does not name by their first character."""
    return [part for part in parts if not any(fnmatch.fnmatchcase(part, one) for one in wanted)]


def _with_suffix(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.name.endswith(SUFFIXES) and file.is_file()]


def _nothing(matched: bool, hidden: int) -> str:
    if hidden:
        return (
            f"all {hidden} data files have a name that begins with . or _ and are left out; name"
            " them directly to read them"
        )
    what = "has a name fedscan reads" if matched else "exists"
    return (
        f"no file {what}; expected a folder or glob of {', '.join(SUFFIXES)} files, or one of them"
    )


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
