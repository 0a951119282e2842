"""Stories as sequences of one length: tokenised, joined with a mark between them, cut."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fedscan.data.stories.story import Story

BYTES, BYTES_END = 256, 256
UNKNOWN, END = "[UNK]", "[END]"


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

    @property
    def sha256(self) -> str:
        """Digest of what the ids mean."""
        return hashlib.sha256((self.description or self.name).encode()).hexdigest()


class Cut(NamedTuple):
    """One sequence: ids, and the theme or column's value of the story it begins in."""

    tokens: np.ndarray
    origin: str


def byte_tokens() -> StoryTokens:
    """Return bytes as ids, with a mark of the end."""
    return StoryTokens("bytes", lambda text: list(text.encode()), len, BYTES_END, BYTES + 1, "")


def wordpiece_tokens(texts: Iterable[str], vocab_size: int) -> StoryTokens:
    """Train a lower-cased WordPiece tokenizer on the training split.

    Args:
        texts: of the training split.
        vocab_size: ids, the end's and the unknown's included, at most.

    Returns:
        The tokenizer; training has no randomness.

    Raises:
        ValueError: if the text has no words.
    """
    # Imported here: only trained tokenizers need it.
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    marks = [UNKNOWN, END]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=marks, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() < 3:
        raise ValueError("the stories have no words to train a tokenizer on")
    end = tokenizer.token_to_id(END)
    return StoryTokens(
        "wordpiece",
        lambda text: tokenizer.encode(text).ids,
        lambda ids: len(tokenizer.decode(ids).encode()),
        end,
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
