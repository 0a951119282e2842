"""Records of a Hugging Face dataset in SlimPajama's schema, streamed in one pass.

The original cerebras/SlimPajama-627B is no longer on the hub; the errors name what is.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from fedscan.data.records import Position, Record, classify
from fedscan.data.sources.hub_folder import refuse_pointers

ALTERNATES = ("DKYoon/SlimPajama-6B", "gmongaras/SlimPajama-627B_Reupload")
POSITION_EVERY = 1000
# Seconds before a broken stream is opened again: 1, 2, 4, ... up to a minute.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0


def records(
    _domains: Sequence[str],
    _seed: int,
    position: Any = None,
    *,
    repo: str,
    revision: str | None,
    split: str,
    retries: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Record | Position]:
    """Yield the dataset's records in its own order.

    A stream that breaks is opened again at the last position; records since then are skipped, so
    that none is yielded twice.

    Args:
        position: (state of the stream, records before it) of an earlier ``Position``, None for
            the beginning.
        repo: namespace/name on the hub, or a folder laid out like a dataset.
        revision: commit of the dataset.
        split: split to read.
        retries: times in a row that a broken stream is opened again.
        sleep: waits between two tries.

    Yields:
        Records, and every ``POSITION_EVERY`` records the position behind them.

    Raises:
        ValueError: if the dataset cannot be had, or keeps breaking.
    """
    state, before = position or (None, 0)
    since, failures = 0, 0
    while True:
        stream, skip = _open(repo, revision, split), since
        if state is not None:
            stream.load_state_dict(state)
        try:
            for item in stream:
                if skip:
                    skip -= 1
                    continue
                yield _classified(item, f"{repo}: record {before + since + 1} of {split!r}")
                since, failures = since + 1, 0
                if since == POSITION_EVERY:
                    state, before, since = stream.state_dict(), before + since, 0
                    yield Position([state, before])
            return
        except (pa.ArrowException, NotImplementedError, TypeError, UnicodeDecodeError) as error:
            place = f"{repo}: after record {before + since} of {split!r}"
            raise ValueError(_unreadable(place, error)) from error
        except (OSError, RuntimeError) as error:
            failures += 1
            if failures > retries:
                raise ValueError(_broken(repo, failures, error)) from error
            sleep(min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT))


def _unreadable(place: str, error: BaseException) -> str:
    return (
        f"{place}: the data cannot be read as text and meta ({_short(error)}); download the files"
        " and use data.source: local, which names the line"
    )


def _broken(repo: str, failures: int, error: BaseException) -> str:
    return (
        f"{repo}: the stream broke {failures} times in a row ({_short(error)}); run again to go on"
        " from the last position, or raise data.huggingface.retries"
    )


def _open(repo: str, revision: str | None, split: str) -> Any:
    # Imported here: it takes seconds, and no other source needs it.
    from datasets import load_dataset
    from datasets.exceptions import DataFilesNotFoundError, DatasetNotFoundError

    refuse_pointers(repo)
    try:
        stream = load_dataset(repo, revision=revision, split=split, streaming=True)
    except (
        DatasetNotFoundError,
        DataFilesNotFoundError,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:
        others = " or ".join(name for name in ALTERNATES if name != repo)
        raise ValueError(
            f"data.huggingface.repo: {repo!r} (revision {revision}, split {split!r}) cannot be"
            f" opened: {_short(error)}; alternates in the same schema: {others}; or download files"
            " and use data.source: local"
        ) from error
    names = set(stream.column_names or ())
    if names and not {"text", "meta"} <= names:
        raise ValueError(
            f"{repo}: its columns are {', '.join(sorted(names))}; expected text and meta as in"
            " SlimPajama"
        )
    return stream.select_columns(["text", "meta"]) if names else stream


def _classified(item: dict[str, Any], place: str) -> Record:
    try:
        return classify(item.get("text"), item.get("meta"))._replace(place=place)
    except ValueError as error:
        raise ValueError(f"{place} is not in SlimPajama's schema: {error}") from None


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
