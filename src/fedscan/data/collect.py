"""One pass over the records into one bucket of tokenised documents per domain."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fedscan.data.records import BEYOND_QUOTA, KEPT, NOT_REQUESTED, Position, Record
from fedscan.data.tokenizer import Tokenizer


class Collected(NamedTuple):
    """Documents per domain and the number of records per (domain, outcome)."""

    documents: dict[str, list[np.ndarray]]
    outcomes: Counter[tuple[str, str]]


def empty(domains: Sequence[str]) -> Collected:
    """Return empty buckets.

    Args:
        domains: domains wanted.

    Returns:
        What ``collect`` starts from.
    """
    return Collected({domain: [] for domain in domains}, Counter())


def collect(
    records: Iterable[Record | Position],
    tokenizer: Tokenizer,
    max_tokens_per_document: int,
    tokens_per_domain: int,
    start: Collected,
    on_position: Callable[[Position, Collected], None] = lambda position, collected: None,
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

    Returns:
        Buckets and counts; reading stops at the record that fills the last bucket.
    """
    documents = {domain: list(bucket) for domain, bucket in start.documents.items()}
    outcomes = Counter(start.outcomes)
    filled = {d: sum(len(tokens) + 1 for tokens in bucket) for d, bucket in documents.items()}
    for record in records:
        if isinstance(record, Position):
            on_position(record, Collected(documents, outcomes))
            continue
        outcome = record.outcome
        if outcome == KEPT and record.domain not in documents:
            outcome = NOT_REQUESTED
        elif outcome == KEPT and filled[record.domain] >= tokens_per_domain:
            outcome = BEYOND_QUOTA
        outcomes[record.domain, outcome] += 1
        if outcome != KEPT:
            continue
        tokens = tokenizer.encode(record.text)[:max_tokens_per_document]
        documents[record.domain].append(tokens)
        filled[record.domain] += len(tokens) + 1
        if min(filled.values()) >= tokens_per_domain:
            break
    return Collected(documents, outcomes)
