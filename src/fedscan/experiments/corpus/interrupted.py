"""An interrupted preparation of the data, as one checkpoint file."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedscan.data.collect import Collected, empty
from fedscan.io import checkpoints
from fedscan.pipeline.stage import Log


def store(path: Path, identity: str, position: Any, collected: Collected) -> None:
    """Replace the checkpoint by the buckets up to a position.

    Args:
        path: checkpoint file.
        identity: hash of what the preparation depends on.
        position: where the source goes on.
        collected: buckets and counts.
    """
    arrays = {}
    for domain, documents in collected.documents.items():
        lengths = np.array([len(tokens) for tokens in documents], dtype=np.int64)
        tokens = np.concatenate(documents) if documents else np.empty(0, dtype=np.uint16)
        arrays |= {f"{domain}/lengths": lengths, f"{domain}/tokens": tokens.astype(np.uint16)}
    counts = [[domain, outcome, n] for (domain, outcome), n in collected.outcomes.items()]
    facts = {"identity": identity, "position": position, "outcomes": counts}
    checkpoints.save(path, arrays, facts)


def restore(
    path: Path, identity: str, domains: Sequence[str], report: Log
) -> tuple[Any, Collected]:
    """Return where a preparation left off, or its beginning.

    Args:
        path: checkpoint file; may be missing.
        identity: hash of what the preparation depends on; another one is ignored.
        domains: domains wanted.
        report: told what happens.

    Returns:
        Position of the source (None: the beginning) and the buckets up to it.
    """
    if not path.exists():
        return None, empty(domains)
    try:
        arrays, facts = checkpoints.load(path)
    except ValueError as error:
        report(f"starting over: {error}")
        return None, empty(domains)
    if facts["identity"] != identity:
        report("starting over: the interrupted preparation had another configuration")
        return None, empty(domains)
    documents = {}
    for domain in domains:
        ends = np.cumsum(arrays[f"{domain}/lengths"])
        parts = np.split(arrays[f"{domain}/tokens"], ends)
        documents[domain] = [part.astype(np.uint16) for part in parts[:-1]]
    outcomes = Counter({(domain, outcome): n for domain, outcome, n in facts["outcomes"]})
    report(f"going on after {outcomes.total()} records")
    return facts["position"], Collected(documents, outcomes)
