"""Words for synthetic text: wonderwords' lists, in an order that differs between domains.

Everything is integer arithmetic on BLAKE2b digests, so that the words drawn are the same on every
Python version and platform.
"""

import functools
import hashlib
import importlib.resources
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

SHA256 = {
    "nounlist.txt": "8d88b3ebc2e2969ed92ebe49cdb0c8a87c2ad3b27493d7afdff608f2e51c5bc9",
    "verblist.txt": "9fbf5e4e69b8869aebd88e6d545312ff9f878a747327ede5f6dbbba5c27b08ad",
    "adjectivelist.txt": "66814d46b7e292c83e839d12fe2fa083c8f66779b14b294e1be4e1342c5d4131",
    "profanitylist.txt": "67c668a797704ecbffdf4725ea3ee1a905a983968d2a3877b60a3971433f514e",
}
# Part of the draws that use the order all domains share; the rest use the domain's own order.
SHARED_PERCENT = 60
# Zipf-Mandelbrot weights 1/(rank + offset): the offset flattens the head, as in real text.
OFFSET = 4
WEIGHT_UNIT = 1 << 40


class Stream:
    """A counter-based stream of integers: BLAKE2b of (key, counter)."""

    def __init__(self, key: str) -> None:
        """Start the stream of ``key``."""
        self._key = key.encode("utf-8")
        self._counter = 0
        self._left: list[int] = []

    def below(self, bound: int) -> int:
        """Return the next integer in [0, bound); its bias is below bound / 2**64.

        Args:
            bound: a positive integer.

        Returns:
            The next draw.
        """
        if not self._left:
            block = hashlib.blake2b(self._key + b"/%d" % self._counter).digest()
            self._counter += 1
            self._left = [int.from_bytes(block[i : i + 8], "big") for i in range(0, 64, 8)]
        return (self._left.pop() * bound) >> 64


class Words(NamedTuple):
    """Words of one class in the order shared by all domains and in the domain's own order."""

    shared: tuple[str, ...]
    own: tuple[str, ...]
    cumulative: tuple[int, ...]

    def draw(self, stream: Stream) -> str:
        """Return a word by Zipf's law.

        Args:
            stream: source of randomness.

        Returns:
            One word.
        """
        order = self.shared if stream.below(100) < SHARED_PERCENT else self.own
        return order[bisect_right(self.cumulative, stream.below(self.cumulative[-1]))]


class Lexicon(NamedTuple):
    """The words of one domain."""

    nouns: Words
    verbs: Words
    adjectives: Words


@functools.cache
def lexicon(domain: str) -> Lexicon:
    """Return the words of a domain.

    Args:
        domain: name of the domain; only the order of the words depends on it.

    Returns:
        Nouns, verbs and adjectives.

    Raises:
        ValueError: if the installed wonderwords has other lists than version 3.0.1.
    """
    unwanted = set(_read("profanitylist.txt"))
    ordered = (
        _words([word for word in _read(name) if word not in unwanted], domain)
        for name in ("nounlist.txt", "verblist.txt", "adjectivelist.txt")
    )
    return Lexicon(*ordered)


def _read(name: str) -> list[str]:
    data = (importlib.resources.files("wonderwords") / "assets" / name).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256[name]:
        raise ValueError(
            f"wonderwords' {name} has sha256 {found}, expected {SHA256[name]}: synthetic text is"
            " defined by version 3.0.1; install wonderwords==3.0.1"
        )
    return data.decode("utf-8").split("\n")


def _words(words: list[str], domain: str) -> Words:
    plain = sorted({word for word in words if word.isascii() and word.isalpha() and word.islower()})
    weights = (WEIGHT_UNIT // (rank + OFFSET) for rank in range(len(plain)))
    return Words(
        tuple(sorted(plain, key=lambda word: _key("", word))),
        tuple(sorted(plain, key=lambda word: _key(domain, word))),
        tuple(accumulate(weights)),
    )


def _key(domain: str, word: str) -> bytes:
    return hashlib.blake2b(f"{domain}/{word}".encode(), digest_size=16).digest()
