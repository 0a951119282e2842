"""Task ``soup``: SymbolSoup, with the best possible rule's answers."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedscan.data import symbol_soup
from fedscan.experiments.sessa.example import Example, Split, Task, Vocabulary
from fedscan.seeds import generator

# Separators: a blank between letters and a line's end, where they are tokens as published.
BLANK_TOKENS = 2


def make(
    section: Mapping[str, Any], seed: int
) -> tuple[Vocabulary, Callable[[Split], Iterator[Example]]]:
    """Return the vocabulary and the maker of a split.

    Args:
        section: ``sessa.tasks.soup``.
        seed: root seed.

    Returns:
        Letters, marks and classes (and, as published, blank and line end); split -> examples.
    """
    lefts, rights = section["left_styles"], section["right_styles"]
    classes = lefts * rights
    published = section["separators"] == "published"
    size = symbol_soup.FIRST_CLASS + classes + (BLANK_TOKENS if published else 0)
    first = symbol_soup.FIRST_CLASS
    vocabulary = Vocabulary(size, first, first + classes - 1, "soup")

    def examples(split: Split) -> Iterator[Example]:
        fewest, most = letters(section, split.factor)
        for index in range(split.count):
            stream = generator(seed, "soup", split.name, split.factor, index)
            size = int(stream.integers(fewest, most + 1))
            share = section["min_block_share"]
            found = symbol_soup.soup(index % classes, lefts, rights, size, share, stream)
            yield _example(found, lefts, rights, split, first + classes if published else None)

    return vocabulary, examples


def letters(section: Mapping[str, Any], factor: int) -> tuple[int, int]:
    """Return the fewest and most letters of a sequence.

    Args:
        section: ``sessa.tasks.soup``; lengths there count white space: 2 M + 13 tokens.
        factor: how much longer than in training.

    Returns:
        Both included.
    """
    fewest = -(-(section["min_tokens"] - 13) // 2)
    return factor * fewest, factor * ((section["max_tokens"] - 13) // 2)


def _example(
    found: symbol_soup.Soup, lefts: int, rights: int, split: Split, blank: int | None
) -> Example:
    tokens = found.tokens if blank is None else _spaced(found.tokens, blank)
    # The best rule is asked of what is measured; of training sequences nobody asks.
    best = None if split.name == "train" else symbol_soup.bayes_class(found, lefts, rights)
    return Example(
        tokens,
        np.array([len(tokens) - 1]),
        np.array([symbol_soup.FIRST_CLASS + found.label]),
        label=found.label,
        order="left first" if found.left_first else "right first",
        shortest_block=min(len(part) for part in found.blocks),
        source=f"left {found.label // rights}",
        ceiling_correct=None if best is None else best == found.label,
    )


def _spaced(tokens: np.ndarray, blank: int) -> np.ndarray:
    """Put a blank between letters, and a line's end around marks, as in the published files."""
    out = [int(tokens[0])]
    for before, token in itertools.pairwise(tokens):
        both = before < symbol_soup.LETTERS and token < symbol_soup.LETTERS
        out += [blank if both else blank + 1, int(token)]
    return np.array(out)


def baselines(section: Mapping[str, Any]) -> dict[str, float]:
    """Return the accuracy of a constant answer.

    Args:
        section: ``sessa.tasks.soup``.
    """
    return {"chance": 1 / (section["left_styles"] * section["right_styles"])}


SOUP = Task(make, baselines)
