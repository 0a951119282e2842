"""Task ``stories``: next-token modelling of short stories."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedscan.data.stories import STORY_SOURCES
from fedscan.data.stories.sequences import StoryTokens, bpe_tokens, byte_tokens, cut
from fedscan.experiments.sessa.example import Example, Split, Task, Vocabulary

# Stories a trained tokenizer learns from at most.
TOKENIZER_STORIES = 100_000
# Made-up stories have no end: as many train a tokenizer.
SYNTHETIC_STORIES = 2_000


def make(
    section: Mapping[str, Any], seed: int
) -> tuple[Vocabulary, Callable[[Split], Iterator[Example]]]:
    """Return the vocabulary and the maker of a split.

    Args:
        section: ``sessa.tasks.stories``.
        seed: root seed of made-up stories.

    Returns:
        Ids of the tokenizer; split -> examples. Training and validation are of the training split,
        validation its first sequences.
    """
    tokens = _tokens(section, seed)

    def examples(split: Split) -> Iterator[Example]:
        length = section["sequence_length"] * split.factor
        of = "test" if split.name == "test" else "train"
        found = cut(_stories(section, seed, of), tokens, length)
        skipped = section["validation"] if split.name == "train" else 0
        rows = list(itertools.islice(found, skipped, skipped + split.count))
        if len(rows) < split.count:
            raise ValueError(
                f"{section['source']} stories, split {split.name!r}: {len(rows)} sequences of"
                f" {length} tokens; sessa.tasks.stories asks for {split.count}"
            )
        for row in rows:
            ids = row.tokens
            yield Example(
                ids,
                np.arange(length - 1),
                ids[1:],
                source=row.origin,
                text_bytes=_bytes(tokens, ids[1:]),
            )

    return Vocabulary(
        tokens.vocab_size, 0, tokens.vocab_size - 1, tokens.name, tokens.description
    ), examples


def _stories(section: Mapping[str, Any], seed: int, split: str) -> Iterator[Any]:
    source = section["source"]
    own = {"seed": seed} if source == "synthetic" else section[source]
    return STORY_SOURCES[source](split, **own)


def _tokens(section: Mapping[str, Any], seed: int) -> StoryTokens:
    if section["tokenizer"] == "bytes":
        return byte_tokens()
    most = SYNTHETIC_STORIES if section["source"] == "synthetic" else TOKENIZER_STORIES
    texts = (s.text for s in itertools.islice(_stories(section, seed, "train"), most))
    return bpe_tokens(texts, section["vocab_size"])


def _bytes(tokens: StoryTokens, ids: np.ndarray) -> int:
    """Return the bytes of the text that ids stand for, ends of stories not counted."""
    return tokens.count_bytes([int(i) for i in ids if i != tokens.end])


def baselines(_section: Mapping[str, Any]) -> dict[str, float]:
    """Return nothing: a perplexity is measured against other models."""
    return {}


STORIES = Task(make, baselines)
