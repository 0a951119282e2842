"""Records of the synthetic domains, round-robin and without end."""

import itertools
from collections.abc import Iterator, Sequence

from fedscan.data.records import KEPT, Record
from fedscan.data.synthetic_text import document


def records(domains: Sequence[str], seed: int) -> Iterator[Record]:
    """Yield synthetic documents, one of each domain in turn; the reader stops when it has enough.

    Args:
        domains: domains wanted.
        seed: root seed of the data.

    Yields:
        Records without end.
    """
    for index in itertools.count():
        for domain in domains:
            yield Record(domain, document(domain, seed, index), KEPT)
