"""Stories of a dataset on the Hugging Face hub, or of a copy in a folder, streamed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedscan.data.sources.hub_folder import refuse_pointers
from fedscan.data.stories.story import Story, story_of


def stories(
    split: str, *, repo: str, revision: str | None, column: str, origin: str | None
) -> Iterator[Story]:
    """Yield the stories of a split.

    Args:
        split: 'train' or 'test', as the dataset names them.
        repo: of the hub, or a folder laid out like one.
        revision: commit or tag; None: the newest, or a folder's.
        column: with the story.
        origin: column that clients are told apart by; None: none.

    Yields:
        Stories in the dataset's order.

    Raises:
        ValueError: if the dataset cannot be had, has no such column, or a story is empty.
    """
    place = str(Path(repo).expanduser()) if Path(repo).expanduser().is_dir() else repo
    refuse_pointers(place)
    for number, row in enumerate(_rows(place, revision, split), 1):
        for name in (column, *([origin] if origin else [])):
            if name not in row:
                raise ValueError(
                    f"{place}: split {split!r} has no column {name!r}; its columns:"
                    f" {', '.join(row)}"
                )
        where = f"{place}: {split} row {number}"
        yield story_of(row[column], row[origin] if origin else None, where)


def _rows(place: str, revision: str | None, split: str) -> Iterator[dict[str, Any]]:
    # Imported here: it takes seconds.
    import datasets

    try:
        found = datasets.load_dataset(place, split=split, revision=revision, streaming=True)
        yield from found
    except ValueError as error:
        raise ValueError(f"{place}: split {split!r} cannot be read ({_short(error)})") from None
    except Exception as error:  # the hub's libraries raise many kinds
        reason = f"{type(error).__name__}: {_short(error)}"
        raise ValueError(f"{place}: split {split!r} cannot be read ({reason})") from error


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
