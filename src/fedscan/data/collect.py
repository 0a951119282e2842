"""One pass over the records into one bucket of tokenised documents per domain."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fedscan.data.records import BEYOND_QUOTA, KEPT, NOT_REQUESTED, Record
from fedscan.data.tokenizer import Tokenizer


class Collected(NamedTuple):
    """Documents per domain and the number of records per (domain, outcome)."""

    documents: dict[str, list[np.ndarray]]
    outcomes: dict[tuple[str, str], int]


def collect(
    records: Iterable[Record],
    domains: Sequence[str],
    tokenizer: Tokenizer,
    max_tokens_per_document: int,
    tokens_per_domain: int,
) -> Collected:
    """Tokenise records until every bucket is full or the records end.

    Memory is bounded by the buckets, whatever the size of the corpus.

    Args:
        records: classified records.
        domains: domains wanted.
        tokenizer: text to ids.
        max_tokens_per_document: longer documents are cut.
        tokens_per_domain: size at which a bucket is full, end-of-sequence tokens included.

    Returns:
        Buckets and counts; reading stops at the record that fills the last bucket.
    """
    documents: dict[str, list[np.ndarray]] = {domain: [] for domain in domains}
    filled = dict.fromkeys(domains, 0)
    outcomes: Counter[tuple[str, str]] = Counter()
    for record in records:
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
    return Collected(documents, dict(sorted(outcomes.items())))
