"""SymbolSoup: two blocks of letters in two families of styles, in noise; and the best one can do.

Task of Horbatko, "Sessa: Selective State Space Attention"; sizes and tables are those of the
released code. A sequence is

    <bos> noise <sep1> block <sep2> noise <sep1> block <sep2> noise <sep> <label>

with one block of a left style and one of a right style, in either order, and the class is the pair
of styles. ``log_likelihoods`` sums over all ways a block can have been written, so that
``bayes_class`` is the rule no model can beat.
"""

import functools
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LETTERS = 16
BOS, SEP1, SEP2, SEP, LABEL = range(LETTERS, LETTERS + 5)
FIRST_CLASS = LETTERS + 5
MARKS = 7
SEEDS = {"left": 123, "right": 456}
PRIMARY, SECONDARY, PREFERENCE = 3.0, 2.0, 4.0
MOTIF_SHARE, MOTIF_LENGTHS = 0.3, (3, 4, 5)
MOTIF_PRIMARY, MOTIF_SECONDARY = 0.9, 0.5
REPLACED = 0.03
# Shares of a sequence's letters that are noise.
NOISE = (0.3, 0.6)

MOTIFS: tuple[tuple[int, ...], ...] = tuple(
    tuple(range(first, first + length))
    for length in MOTIF_LENGTHS
    for first in range(LETTERS - length + 1)
)
# Length -> where its motifs are in the list, and their letters, (motifs, length).
_BY_LENGTH = {
    size: (
        np.array([i for i, motif in enumerate(MOTIFS) if len(motif) == size]),
        np.array([motif for motif in MOTIFS if len(motif) == size]),
    )
    for size in MOTIF_LENGTHS
}


class Style(NamedTuple):
    """How a block is written.

    Attributes:
        unigram: probabilities of a first letter, (letters).
        following: probabilities of a letter after another, (letters, letters).
        motifs: weights, (motifs).
    """

    unigram: np.ndarray
    following: np.ndarray
    motifs: np.ndarray


class Soup(NamedTuple):
    """One sequence.

    Attributes:
        tokens: up to and including <label>, (length) int64.
        label: left style * right styles + right style.
        blocks: the letters of the first and the second block.
        left_first: whether the left style's block comes first.
    """

    tokens: np.ndarray
    label: int
    blocks: tuple[np.ndarray, np.ndarray]
    left_first: bool


@functools.cache
def styles(family: str, count: int) -> tuple[Style, ...]:
    """Return the first styles of a family.

    Args:
        family: 'left' or 'right'.
        count: styles; a further one changes no earlier.

    Returns:
        One per style.
    """
    shuffler = random.Random(SEEDS[family])
    found = []
    for _ in range(count):
        order = list(range(LETTERS))
        shuffler.shuffle(order)
        found.append(_style(order[:4], order[4:8]))
    return tuple(found)


def _style(primary: Sequence[int], secondary: Sequence[int]) -> Style:
    weights = np.ones(LETTERS)
    weights[list(primary)], weights[list(secondary)] = PRIMARY, SECONDARY
    following = np.tile(weights, (LETTERS, 1))
    for i in range(4):
        p, s = primary[i], secondary[i]
        for first, then in ((p, primary[(i + 1) % 4]), (p, p), (s, s), (p, s), (s, p)):
            following[first, then] *= PREFERENCE
    motifs = [
        1
        + MOTIF_PRIMARY * sum(letter in primary for letter in motif)
        + MOTIF_SECONDARY * sum(letter in secondary for letter in motif)
        for motif in MOTIFS
    ]
    total = following.sum(axis=1, keepdims=True)
    return Style(weights / weights.sum(), following / total, np.array(motifs))


def _fitting(remaining: int) -> np.ndarray:
    return np.array([len(motif) <= remaining for motif in MOTIFS])


def block(style: Style, length: int, stream: np.random.Generator) -> np.ndarray:
    """Write a block.

    Args:
        style: of the block.
        length: letters.
        stream: source of randomness.

    Returns:
        (length) int64.
    """
    clean: list[int] = []
    while len(clean) < length:
        remaining = length - len(clean)
        if remaining >= min(MOTIF_LENGTHS) and stream.random() < MOTIF_SHARE:
            weights = style.motifs * _fitting(remaining)
            clean += MOTIFS[int(stream.choice(len(MOTIFS), p=weights / weights.sum()))]
        else:
            chances = style.following[clean[-1]] if clean else style.unigram
            clean.append(int(stream.choice(LETTERS, p=chances)))
    letters = np.array(clean)
    other = (letters + stream.integers(1, LETTERS, size=length)) % LETTERS
    return np.where(stream.random(length) < REPLACED, other, letters)


def soup(
    label: int, lefts: int, rights: int, letters: int, min_share: float, stream: np.random.Generator
) -> Soup:
    """Write a sequence of a class.

    Args:
        label: left style * ``rights`` + right style.
        lefts: left styles.
        rights: right styles.
        letters: M, letters of blocks and noise; at least 5.
        min_share: least share of the blocks' letters that either has.
        stream: source of randomness.

    Returns:
        The sequence, ``letters`` + 7 tokens.
    """
    left, right = divmod(label, rights)
    most = min(int(NOISE[1] * letters), letters - 2)
    noise = int(stream.integers(min(max(3, int(NOISE[0] * letters)), most), most + 1))
    main = letters - noise
    least = max(1, int(min_share * main))
    of_left = int(stream.integers(least, main - least + 1))
    blocks = [
        block(styles("left", lefts)[left], of_left, stream),
        block(styles("right", rights)[right], main - of_left, stream),
    ]
    left_first = not stream.random() < 0.5
    if not left_first:
        blocks.reverse()
    n0 = int(stream.integers(1, noise - 1))
    n1 = int(stream.integers(1, noise - n0))
    parts = [stream.integers(LETTERS, size=size) for size in (n0, n1, noise - n0 - n1)]
    tokens = np.concatenate(
        [[BOS], parts[0], [SEP1], blocks[0], [SEP2], parts[1], [SEP1], blocks[1], [SEP2],
         parts[2], [SEP, LABEL]]
    )  # fmt: skip
    return Soup(tokens, label, (blocks[0], blocks[1]), left_first)


def log_likelihoods(letters: np.ndarray, given: Sequence[Style]) -> np.ndarray:
    """Return log P(block | style, its length), over all ways it can have been written.

    A forward recursion: the state is the last letter before replacement; a step is a letter or a
    motif.

    Args:
        letters: the block, (length).
        given: styles.

    Returns:
        (styles).
    """
    length, count = len(letters), len(given)
    emission = np.full((length, LETTERS), REPLACED / (LETTERS - 1))
    emission[np.arange(length), letters] = 1 - REPLACED
    unigram = np.stack([style.unigram for style in given])
    following = np.stack([style.following for style in given])
    weights = np.stack([style.motifs for style in given])
    reached = np.zeros((length + 1, count, LETTERS))
    logs = np.zeros(count)
    for at in range(length):
        remaining = length - at
        # Mass before this letter, and where a single letter leads.
        mass = np.ones(count) if at == 0 else reached[at].sum(axis=1)
        if at:
            reached[at : at + max(MOTIF_LENGTHS) + 1] /= mass[:, None]
            logs += np.log(mass)
        letter = unigram if at == 0 else np.einsum("sl,slc->sc", reached[at], following)
        motif_share = MOTIF_SHARE if remaining >= min(MOTIF_LENGTHS) else 0.0
        reached[at + 1] += (1 - motif_share) * letter * emission[at]
        if not motif_share:
            continue
        chances = weights * _fitting(remaining)
        chances = motif_share * chances / chances.sum(axis=1, keepdims=True)
        for size, (chosen, motifs) in _BY_LENGTH.items():
            if size <= remaining:
                seen = emission[at + np.arange(size), motifs].prod(axis=1)
                # Motifs of one length end in different letters.
                reached[at + size][:, motifs[:, -1]] += chances[:, chosen] * seen
    return np.asarray(logs + np.log(reached[length].sum(axis=1)))


def bayes_class(found: Soup, lefts: int, rights: int) -> int:
    """Return the most probable class: no model can be right more often.

    Args:
        found: a sequence; its blocks are marked.
        lefts: left styles.
        rights: right styles.

    Returns:
        The class; of equal ones the first.
    """
    first, second = found.blocks
    of_left = [log_likelihoods(part, styles("left", lefts)) for part in (first, second)]
    of_right = [log_likelihoods(part, styles("right", rights)) for part in (first, second)]
    scores = np.logaddexp(
        of_left[0][:, None] + of_right[1][None], of_left[1][:, None] + of_right[0][None]
    )
    return int(scores.argmax())
