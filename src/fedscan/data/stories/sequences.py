"""Stories as sequences of one length: tokenised, joined with a mark between them, cut."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fedscan.data.stories.story import Story

BYTES, BYTES_END = 256, 256
END = "<|endoftext|>"


class StoryTokens(NamedTuple):
    """How stories become ids.

    Attributes:
        name: of the tokenizer.
        encode: text -> ids.
        count_bytes: ids -> UTF-8 bytes of the text they stand for.
        end: id after every story.
        vocab_size: ids there are.
        description: what the ids mean, as JSON; '' for bytes.
    """

    name: str
    encode: Callable[[str], list[int]]
    count_bytes: Callable[[list[int]], int]
    end: int
    vocab_size: int
    description: str


class Cut(NamedTuple):
    """One sequence: ids, and the theme or column's value of the story it begins in."""

    tokens: np.ndarray
    origin: str


def byte_tokens() -> StoryTokens:
    """Return bytes as ids, with a mark of the end."""
    return StoryTokens("bytes", lambda text: list(text.encode()), len, BYTES_END, BYTES + 1, "")


def bpe_tokens(texts: Iterable[str], vocab_size: int) -> StoryTokens:
    """Train a byte-level BPE tokenizer on the training split.

    Not WordPiece: the library numbers its subwords in another order at every call.

    Args:
        texts: of the training split.
        vocab_size: ids, the end's included, at most; at least 257.

    Returns:
        The tokenizer; training has no randomness.
    """
    # Imported here: only trained tokenizers need it.
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # A letter of a byte-level token stands for one byte.
    sizes = {i: len(token) for token, i in tokenizer.get_vocab().items()}
    return StoryTokens(
        "bpe",
        lambda text: tokenizer.encode(text).ids,
        lambda ids: sum(sizes[i] for i in ids),
        tokenizer.token_to_id(END),
        tokenizer.get_vocab_size(),
        tokenizer.to_str(),
    )


def cut(stories: Iterable[Story], tokens: StoryTokens, length: int) -> Iterator[Cut]:
    """Cut joined stories; what is left at the end is dropped.

    Args:
        stories: in order.
        tokens: how they become ids.
        length: ids per sequence.

    Yields:
        Sequences. A story's rest goes on in the next.
    """
    waiting: list[int] = []
    origins: list[str] = []
    for story in stories:
        ids = [*tokens.encode(story.text), tokens.end]
        waiting += ids
        origins += [story.origin] * len(ids)
        while len(waiting) >= length:
            yield Cut(np.array(waiting[:length]), origins[0])
            del waiting[:length], origins[:length]
