"""Documents that say the same: a digest of what is used of each, and which copy stays.

Two documents are duplicates if the text that is used of them (after the cut to the tokens a
document may have) is the same but for white space: line ends, indentation and blanks at the ends
differ between copies of one text. Anything else that differs, a word or a capital, makes another
document.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Sixteen bytes: among a billion documents, a chance of 1e-21 that two share one.
DIGEST_BYTES = 16
WITHIN = "within"
ACROSS = "across"


def digest(text: str) -> bytes:
    """Return what identifies a document's text, white space apart.

    Args:
        text: the text that is used; any characters.

    Returns:
        ``DIGEST_BYTES`` bytes.
    """
    words = " ".join(text.split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=DIGEST_BYTES).digest()


def owner(identity: bytes, domains: Iterable[str]) -> str:
    """Return the domain that a text in several domains belongs to.

    The text itself draws it: the same on every machine, in whatever order files and records are
    read, and no domain is favoured, as the first by name would be.

    Args:
        identity: digest of the text.
        domains: domains it stands in, at least one.

    Returns:
        One of them.
    """
    return min(domains, key=lambda name: hashlib.blake2b(name.encode(), key=identity).digest())


def counts(
    copies: Mapping[tuple[str, str], int], domains: Sequence[str], rule: str
) -> dict[str, Any]:
    """Return the counts as they are stored.

    Args:
        copies: (domain, kind) -> copies.
        domains: domains wanted.
        rule: what was done with them, 'keep' or 'drop'.

    Returns:
        'rule', and per kind the copies per domain.
    """
    found = {kind: {d: copies.get((d, kind), 0) for d in domains} for kind in (WITHIN, ACROSS)}
    return {"rule": rule, **found}
