"""From labelled records to token ids: prompts that fit, label words, and a seeded choice.

A prompt is the template's pieces and its tail; the label word follows after one space. Only text
is ever cut, last field first: the template and the label stay whole.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedscan import seeds
from fedscan.data.tasks.definition import Pool, Task

Encode = Callable[[str], np.ndarray]


class Prompt(NamedTuple):
    """Token ids of a prompt without label, uint16, and whether text was cut."""

    ids: np.ndarray
    truncated: bool


class Layout(NamedTuple):
    """Token counts that prompts of a task must keep.

    ``head`` is what pieces and text may take, ``literals`` what each piece's own words take.
    """

    head: int
    literals: tuple[int, ...]
    tail: np.ndarray


def label_ids(task: Task, encode: Encode) -> list[np.ndarray]:
    """Return the token ids of every label, with the space before it.

    Args:
        task: the task.
        encode: text -> ids, uint16.

    Returns:
        One array per label.

    Raises:
        ValueError: if a label has no tokens, or two labels have the same.
    """
    found: list[np.ndarray] = []
    for label in task.labels:
        ids = encode(f" {label.word}") if label.word.strip() else np.empty(0, np.uint16)
        if not len(ids):
            raise ValueError(f"{task.name}: label {label.word!r} has no tokens; give it a word")
        if any(np.array_equal(ids, other) for other in found):
            raise ValueError(f"{task.name}: label {label.word!r} has the tokens of another label")
        found.append(ids)
    return found


def layout(task: Task, encode: Encode, max_tokens: int, reserved: int) -> Layout:
    """Return the token counts of a task's prompts.

    Args:
        task: the task.
        encode: text -> ids, uint16.
        max_tokens: tokens of prompt and label at most.
        reserved: tokens of these kept for the template's tail and the label.

    Returns:
        What ``encode_prompt`` needs.

    Raises:
        ValueError: if tail and longest label exceed ``reserved``, or the template leaves no room.
    """
    tail = encode(task.tail)
    longest = max(label_ids(task, encode), key=len)
    if len(tail) + len(longest) > reserved:
        raise ValueError(
            f"{task.name}: the template's tail and its longest label take"
            f" {len(tail) + len(longest)} tokens; {reserved} are reserved for them, which must be"
            " at least that"
        )
    literals = tuple(len(encode(literal.rstrip(" "))) for literal, _ in task.pieces)
    head = max_tokens - reserved
    if head <= sum(literals):
        raise ValueError(
            f"{task.name}: the template takes {sum(literals)} of the {head} tokens that prompts of"
            f" at most {max_tokens}, {reserved} of them reserved, leave; text needs at least one"
            " more"
        )
    return Layout(head, literals, tail)


def encode_prompt(task: Task, fields: Mapping[str, str], encode: Encode, room: Layout) -> Prompt:
    """Return a record's prompt, cut to fit.

    Args:
        task: the task.
        fields: field -> text.
        encode: text -> ids, uint16.
        room: result of ``layout``.

    Returns:
        Ids of pieces, text and tail; at most ``room.head`` before the tail.
    """
    # A piece is encoded with its text: "Article: oil" has other tokens than its two halves.
    parts = [encode(f"{literal}{fields[field]}") for literal, field in task.pieces]
    excess = sum(map(len, parts)) - room.head
    truncated = excess > 0
    for index in reversed(range(len(parts))):
        cut = min(max(excess, 0), len(parts[index]) - room.literals[index])
        parts[index] = parts[index][: len(parts[index]) - cut]
        excess -= cut
    return Prompt(np.concatenate([*parts, room.tail]).astype(np.uint16), truncated)


def choose(pool: Pool, cap: int, seed: int, task: str, split: str) -> np.ndarray:
    """Return which records are used, shuffled before the cut: datasets are sorted by class.

    Args:
        pool: records of the split.
        cap: records at most.
        seed: root seed of the choice.
        task: name of the task, an axis of the random stream.
        split: name of the split, another one.

    Returns:
        Distinct record indices, at most ``cap``, int64.
    """
    order = seeds.generator(seed, "task examples", task, split).permutation(pool.size)
    return np.asarray(order[:cap], dtype=np.int64)
