"""Records of the synthetic domains, round-robin and without end."""

import itertools
from collections.abc import Iterator, Sequence

from fedscan.data.records import KEPT, Record
from fedscan.data.synthetic_text import document


def records(domains: Sequence[str], seed: int, position: object = None) -> Iterator[Record]:
    """Yield synthetic documents, one of each domain in turn; the reader stops when it has enough.

    Args:
        domains: domains wanted.
        seed: root seed of the data.
        position: ignored; documents are made faster than they could be skipped.

    Yields:
        Records without end.
    """
    del position
    for index in itertools.count():
        for domain in domains:
            yield Record(domain, document(domain, seed, index), KEPT, f"{domain} {index}")
