"""Errors of the library, which knows no configuration, said with the key they go back to."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def under_key(key: str) -> Iterator[None]:
    """Begin the text of an error with a key of the configuration.

    Args:
        key: dotted, e.g. 'merging.local'; with what it takes, where the library cannot know.

    Yields:
        Nothing.

    Raises:
        ValueError: 'key: text' for one that the block raises.
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
