"""A look at the configured source, without writing anything."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedscan import seeds
from fedscan.data.collect import collect, empty
from fedscan.data.duplicates import ACROSS, WITHIN
from fedscan.data.packing import split_and_pack
from fedscan.data.partition import exact
from fedscan.data.sources import SOURCES, local
from fedscan.data.tokenizers import TOKENIZERS
from fedscan.experiments.corpus.plan import domains as used_domains


class DomainStatistics(NamedTuple):
    """Token statistics of one domain's documents; lengths are in tokens."""

    documents: int
    tokens: int
    median_length: int
    length_95_percent: int
    longest: int
    distinct_tokens: int
    pool_sequences: int


class Inspection(NamedTuple):
    """What a source offers; ``copies`` are, per domain, those within it and of another's."""

    source: str
    tokenizer: str
    outcomes: dict[tuple[str, str], int]
    domains: dict[str, DomainStatistics]
    copies: dict[str, tuple[int, int]]
    duplicates: str
    files_left_out: int


def inspect(config: Mapping[str, Any]) -> Inspection:
    """Read the source as a run would and count.

    Args:
        config: the whole configuration.

    Returns:
        Outcomes of the records and statistics per domain.
    """
    data, partition = config["data"], config["partition"]
    domains = used_domains(config)
    source, name = data["source"], config["tokenizer"]["name"]
    tokenizer = TOKENIZERS[name](**config["tokenizer"].get(name, {}))
    length, limit = partition["sequence_length"], partition["sequences_per_client"]
    collected = collect(
        SOURCES[source](domains, data["seed"], None, **data.get(source, {})),
        tokenizer,
        data["max_tokens_per_document"],
        limit * length + data["max_tokens_per_document"] + 1,
        empty(domains),
        drop_duplicates=data["duplicates"] == "drop",
    )
    share = exact(partition["train_val_split"])
    statistics = {}
    for domain, documents in collected.documents.items():
        stream = seeds.generator(data["seed"], "document order", domain)
        packed = split_and_pack(documents, length, tokenizer.eos, share, limit, stream)
        pool = len(packed.train) + len(packed.validation)
        statistics[domain] = _statistics(documents, pool)
    outcomes = dict(sorted(collected.outcomes.items()))
    counter = collected.copies
    copies = {d: (counter[d, WITHIN], counter[d, ACROSS]) for d in statistics}
    left_out = len(local.search(data["local"]["paths"]).left_out) if source == "local" else 0
    return Inspection(
        source, tokenizer.name, outcomes, statistics, copies, data["duplicates"], left_out
    )


def _statistics(documents: list[np.ndarray], pool: int) -> DomainStatistics:
    lengths = np.array([len(tokens) for tokens in documents] or [0])
    distinct = len(np.unique(np.concatenate(documents))) if documents else 0
    return DomainStatistics(
        len(documents),
        int(lengths.sum()),
        int(np.median(lengths)),
        int(np.percentile(lengths, 95)),
        int(lengths.max()),
        distinct,
        pool,
    )
