"""Sources of records: name -> function of (domains, seed, position, own configuration keys).

A source may yield a ``Position`` now and then: from there a later call can go on.
"""

from collections.abc import Callable, Iterator

from fedscan.data.records import Position, Record
from fedscan.data.sources import huggingface, local, synthetic

SOURCES: dict[str, Callable[..., Iterator[Record | Position]]] = {
    "synthetic": synthetic.records,
    "local": local.records,
    "huggingface": huggingface.records,
}
