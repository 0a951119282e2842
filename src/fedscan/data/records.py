"""One record of the SlimPajama schema: ``{"text": str, "meta": {"redpajama_set_name": str}}``.

Records that cannot be used are classified, so that they can be counted; records that break the
schema raise, since they mean that the wrong file was given.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedscan.data.domains import BY_SET_NAME, UNUSED_SET_NAMES

SET_NAME = "redpajama_set_name"
NEEDED = {"text", "meta", SET_NAME}

KEPT = "kept"
NO_TEXT = "dropped: no text"
EMPTY_TEXT = "dropped: empty text"
NO_DOMAIN = "dropped: no meta.redpajama_set_name"
UNUSED_DOMAIN = "dropped: domain not used (RedPajamaBook)"
UNKNOWN_DOMAIN = "dropped: unknown redpajama_set_name"
NOT_REQUESTED = "dropped: domain not in any setting"
BEYOND_QUOTA = "dropped: enough tokens of the domain"
COPY_WITHIN = "dropped: copy of another document of the domain"
COPY_ACROSS = "dropped: copy of a document of another domain"


class Record(NamedTuple):
    """A classified record; ``text`` is empty unless the outcome is ``KEPT``.

    ``place`` says where it stands, for errors: file and line, row or number.
    """

    domain: str
    text: str
    outcome: str
    place: str = ""


class Position(NamedTuple):
    """Where a source is in its stream, as JSON-like data; all records so far have been yielded."""

    state: Any


def parse_line(line: str) -> Record:
    """Classify one JSON line.

    Args:
        line: JSON text of one record.

    Returns:
        The record with its outcome.

    Raises:
        ValueError: if the line is not a JSON object of the schema.
    """
    try:
        value = _loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error}); a line is one object") from None
    except RecursionError:
        raise ValueError("not usable JSON (nested too deeply)") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {type(value).__name__}")
    return classify(value.get("text"), value.get("meta"))


def classify(text: Any, meta: Any) -> Record:
    """Classify the two fields of a record.

    Args:
        text: document text, or its UTF-8 bytes; None when absent.
        meta: mapping with ``redpajama_set_name``, the same as JSON text, or None.

    Returns:
        The record with its outcome. Lone surrogates in the text become U+FFFD, since no UTF-8
        text can hold them.

    Raises:
        ValueError: if a field has a type outside the schema.
    """
    text, meta = _as_text(text), _as_text(meta)
    if text is not None and not isinstance(text, str):
        raise ValueError(f"text must be a string, found {type(text).__name__}")
    set_name = _set_name(meta)
    if set_name is None:
        return Record("", "", NO_DOMAIN)
    if set_name in UNUSED_SET_NAMES:
        return Record("", "", UNUSED_DOMAIN)
    domain = BY_SET_NAME.get(set_name)
    if domain is None:
        return Record("", "", UNKNOWN_DOMAIN)
    if text is None:
        return Record(domain, "", NO_TEXT)
    if not text.strip():
        return Record(domain, "", EMPTY_TEXT)
    return Record(domain, _without_lone_surrogates(text), KEPT)


def _as_text(value: Any) -> Any:
    """Decode what a Parquet writer stored as bytes without saying that they are text."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_repeats, parse_int=_integer)


def _integer(digits: str) -> int:
    # No number is used; Python refuses to read one of more than 4,300 digits.
    return int(digits[:100])


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a needed key that stands in an object twice: which of them is meant?"""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        for key in NEEDED & found.keys():
            if keys.count(key) > 1:
                raise ValueError(f"key {key!r} stands {keys.count(key)} times in one object")
    return found


def _set_name(meta: Any) -> str | None:
    if isinstance(meta, str):
        try:
            meta = _loads(meta)
        except json.JSONDecodeError:
            raise ValueError(f"meta is text but not JSON: {meta[:60]!r}") from None
        except RecursionError:
            raise ValueError("meta is not usable JSON (nested too deeply)") from None
    if meta is None:
        return None
    if not isinstance(meta, Mapping):
        raise ValueError(f"meta must be an object, found {type(meta).__name__}")
    name = meta.get(SET_NAME)
    if name is not None and not isinstance(name, str):
        raise ValueError(f"meta.redpajama_set_name must be a string, found {type(name).__name__}")
    return name


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
