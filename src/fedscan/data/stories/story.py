"""A story, whatever its source, and what is refused of a record."""

from typing import Any, NamedTuple

SPLITS = ("train", "test")


class Story(NamedTuple):
    """One story.

    Attributes:
        text: of the story.
        origin: what clients may be told apart by: a theme, or a column's value; '' if none.
    """

    text: str
    origin: str


def story_of(text: Any, origin: Any, place: str) -> Story:
    """Return the story of a record.

    Args:
        text: value of the column with the story.
        origin: value of the column that clients are told apart by, or None.
        place: where the record stands.

    Returns:
        The story, without white space around it.

    Raises:
        ValueError: if the story is not text, or empty.
    """
    if not isinstance(text, str):
        raise ValueError(f"{place}: the story is {type(text).__name__}; expected text")
    if not text.strip():
        raise ValueError(f"{place}: an empty story")
    return Story(text.strip(), "" if origin is None else str(origin))
