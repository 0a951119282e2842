"""An interrupted preparation of the data, as one checkpoint file."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedscan.data.collect import Collected, empty
from fedscan.data.duplicates import DIGEST_BYTES
from fedscan.io import checkpoints
from fedscan.pipeline.stage import Log

# Of the checkpoint: since 2 it has the documents' digests.
FORMAT = 2


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
        arrays[f"{domain}/digests"] = _as_array(collected.digests[domain])
    arrays["seen"] = _as_array(list(collected.seen))
    arrays["seen_domains"] = np.array(list(collected.seen.values()), np.int64)
    facts = {"identity": identity, "position": position, "format": FORMAT}
    for name, counter in (("outcomes", collected.outcomes), ("copies", collected.copies)):
        facts[name] = [[domain, what, n] for (domain, what), n in counter.items()]
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
    if facts.get("format") != FORMAT:
        report("starting over: the interrupted preparation was made by another version")
        return None, empty(domains)
    if facts["identity"] != identity:
        report("starting over: the interrupted preparation had another configuration")
        return None, empty(domains)
    documents, digests = {}, {}
    for domain in domains:
        ends = np.cumsum(arrays[f"{domain}/lengths"])
        parts = np.split(arrays[f"{domain}/tokens"], ends)
        documents[domain] = [part.astype(np.uint16) for part in parts[:-1]]
        digests[domain] = _as_bytes(arrays[f"{domain}/digests"])
    seen = dict(zip(_as_bytes(arrays["seen"]), arrays["seen_domains"].tolist(), strict=True))
    outcomes, copies = (
        Counter({(domain, what): n for domain, what, n in facts[name]})
        for name in ("outcomes", "copies")
    )
    report(f"going on after {outcomes.total()} records")
    return facts["position"], Collected(documents, digests, seen, outcomes, copies)


def _as_array(digests: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), DIGEST_BYTES)


def _as_bytes(array: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in array]
