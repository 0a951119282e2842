"""Sources of records: name -> function of (domains, seed, own configuration keys)."""

from collections.abc import Callable, Iterator

from fedscan.data.records import Record
from fedscan.data.sources import local, synthetic

SOURCES: dict[str, Callable[..., Iterator[Record]]] = {
    "synthetic": synthetic.records,
    "local": local.records,
}
