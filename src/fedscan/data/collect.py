"""One pass over the records into one bucket of tokenised documents per domain."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fedscan.data.duplicates import ACROSS, WITHIN, digest, owner
from fedscan.data.records import (
    BEYOND_QUOTA,
    COPY_ACROSS,
    COPY_WITHIN,
    KEPT,
    NOT_REQUESTED,
    Position,
    Record,
)
from fedscan.data.tokenizer import Tokenizer, first_tokens

DROPPED = {WITHIN: COPY_WITHIN, ACROSS: COPY_ACROSS}


class Collected(NamedTuple):
    """Documents per domain and what was counted.

    ``outcomes`` counts records per (domain, outcome). ``copies`` counts, per (domain, 'within' or
    'across'), the documents whose text the domain, or the one it belongs to, has already: what
    dropping duplicates leaves out, and what keeping them keeps. ``digests`` goes with
    ``documents``. ``seen`` has the domains that each text stood in: bit k for the k-th domain.
    """

    documents: dict[str, list[np.ndarray]]
    digests: dict[str, list[bytes]]
    seen: dict[bytes, int]
    outcomes: Counter[tuple[str, str]]
    copies: Counter[tuple[str, str]]


def empty(domains: Sequence[str]) -> Collected:
    """Return empty buckets.

    Args:
        domains: domains wanted.

    Returns:
        What ``collect`` starts from.
    """
    return Collected({d: [] for d in domains}, {d: [] for d in domains}, {}, Counter(), Counter())


def collect(
    records: Iterable[Record | Position],
    tokenizer: Tokenizer,
    max_tokens_per_document: int,
    tokens_per_domain: int,
    start: Collected,
    on_position: Callable[[Position, Collected], None] = lambda _position, _collected: None,
    *,
    drop_duplicates: bool = True,
) -> Collected:
    """Tokenise records until every bucket is full or the records end.

    Memory is bounded by the buckets, whatever the size of the corpus.

    Args:
        records: classified records, with positions of a source that can go on from them.
        tokenizer: text to ids.
        max_tokens_per_document: longer documents are cut.
        tokens_per_domain: size at which a bucket is full, end-of-sequence tokens included.
        start: buckets so far; its keys are the domains wanted; not changed.
        on_position: called with each position and the buckets up to it.
        drop_duplicates: whether one copy of a text is kept (see ``data.duplicates``), or all.

    Returns:
        Buckets and counts; reading stops at the record that fills the last bucket.

    Raises:
        ValueError: if a text cannot be tokenised; names its place.
    """
    buckets = _Buckets(start, drop_duplicates)
    for record in records:
        if isinstance(record, Position):
            on_position(record, buckets.collected())
            continue
        outcome = record.outcome
        if outcome == KEPT and record.domain not in buckets.filled:
            outcome = NOT_REQUESTED
        elif outcome == KEPT and buckets.filled[record.domain] >= tokens_per_domain:
            outcome = BEYOND_QUOTA
        if outcome != KEPT:
            buckets.outcomes[record.domain, outcome] += 1
            continue
        most = max_tokens_per_document
        tokens = first_tokens(tokenizer, record.text, most, record.place)
        # What is used is decoded only where the document was cut: it takes as long as encoding.
        used = record.text if len(tokens) < most else tokenizer.decode(tokens)
        buckets.add(record.domain, tokens, digest(used))
        if min(buckets.filled.values()) >= tokens_per_domain:
            break
    return buckets.collected()


class _Buckets:
    """Buckets while they are filled.

    A copy may come later in the domain that a text belongs to than in another: the other's is
    then taken out again, so that what stays does not depend on the order of reading.
    """

    def __init__(self, start: Collected, drop: bool) -> None:
        self.drop = drop
        self.documents = {d: list(bucket) for d, bucket in start.documents.items()}
        self.digests = {d: list(found) for d, found in start.digests.items()}
        self.filled = {d: sum(len(t) + 1 for t in b) for d, b in start.documents.items()}
        self.seen = dict(start.seen)
        self.outcomes, self.copies = Counter(start.outcomes), Counter(start.copies)
        # Tokens of a text that has moved to another domain; out of the bucket when it is asked for.
        self.moved: dict[str, set[bytes]] = {domain: set() for domain in self.documents}
        self.sizes: dict[bytes, int] = {
            identity: len(tokens) + 1
            for domain, bucket in self.documents.items()
            for identity, tokens in zip(self.digests[domain], bucket, strict=True)
        }

    def add(self, domain: str, tokens: np.ndarray, identity: bytes) -> None:
        """Take a document in, unless it is a copy that is dropped."""
        mask, names = self.seen.get(identity, 0), list(self.documents)
        bit = 1 << names.index(domain)
        if mask & bit:
            self._copy(domain, WITHIN)
            keep = not self.drop
        else:
            self.seen[identity] = mask | bit
            domains = [name for k, name in enumerate(names) if mask >> k & 1]
            keep = self._first_of_domain(domain, domains, identity)
        if keep:
            self.documents[domain].append(tokens)
            self.digests[domain].append(identity)
            self.filled[domain] += len(tokens) + 1
            self.sizes[identity] = len(tokens) + 1
            self.outcomes[domain, KEPT] += 1

    def _first_of_domain(self, domain: str, domains: list[str], identity: bytes) -> bool:
        """Count a text that is new to a domain, and say whether it is kept there."""
        if not domains:
            return True
        before = owner(identity, domains)
        if owner(identity, (before, domain)) == before:
            self._copy(domain, ACROSS)
            return not self.drop
        self._copy(before, ACROSS)
        if self.drop:
            self.moved[before].add(identity)
            self.filled[before] -= self.sizes[identity]
            self.outcomes[before, KEPT] -= 1
        return True

    def _copy(self, domain: str, kind: str) -> None:
        self.copies[domain, kind] += 1
        if self.drop:
            self.outcomes[domain, DROPPED[kind]] += 1

    def collected(self) -> Collected:
        """Return what there is, and forget what has moved."""
        for domain, gone in self.moved.items():
            if gone:
                pairs = zip(self.digests[domain], self.documents[domain], strict=True)
                left = [(identity, tokens) for identity, tokens in pairs if identity not in gone]
                self.digests[domain] = [identity for identity, _ in left]
                self.documents[domain] = [tokens for _, tokens in left]
                gone.clear()
        outcomes = +self.outcomes
        return Collected(self.documents, self.digests, self.seen, outcomes, Counter(self.copies))
