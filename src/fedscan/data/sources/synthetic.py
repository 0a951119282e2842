"""Records of the synthetic domains, round-robin and without end."""

import itertools
from collections.abc import Iterator, Sequence

from fedscan.data.records import KEPT, Record
from fedscan.data.synthetic_text import document


def records(domains: Sequence[str], seed: int, _position: object = None) -> Iterator[Record]:
    """Yield synthetic documents, one of each domain in turn; the reader stops when it has enough.

    A position is of no use: documents are made faster than they could be skipped.

    Args:
        domains: domains wanted.
        seed: root seed of the data.

    Yields:
        Records without end.
    """
    for index in itertools.count():
        for domain in domains:
            yield Record(domain, document(domain, seed, index), KEPT, f"{domain} {index}")
