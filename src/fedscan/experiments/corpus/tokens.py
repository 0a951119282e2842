"""Stage ``tokens``: records -> documents -> packed sequences per domain, with a manifest."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedscan import seeds
from fedscan.data import duplicates
from fedscan.data.collect import Collected, collect
from fedscan.data.packing import Packed, split_and_pack
from fedscan.data.partition import exact
from fedscan.data.records import Position
from fedscan.data.sources import SOURCES, local
from fedscan.data.tokenizer import Tokenizer
from fedscan.data.tokenizers import TOKENIZERS
from fedscan.experiments.corpus import interrupted
from fedscan.experiments.corpus.sequences import sequence_table
from fedscan.experiments.corpus.tables import DOCUMENTS, TOKENS
from fedscan.io import atomic, parquet
from fedscan.io.provenance import digest, versions
from fedscan.pipeline.stage import Job

CHECKPOINT = "interrupted.safetensors"


def run(job: Job) -> None:
    """Write the token tables of every domain, the record counts and the manifest.

    Args:
        job: settings: sections ``data``, ``tokenizer``, ``partition`` and the list ``domains``. Its
            folder receives domain=<name>/{train,validation}.parquet, documents.parquet and
            manifest.json.

    Raises:
        ValueError: if the input is damaged or a domain has too little text.
    """
    settings, folder, report = job.settings, job.folder, job.report
    data, partition = settings["data"], settings["partition"]
    name = settings["tokenizer"]["name"]
    tokenizer = TOKENIZERS[name](**settings["tokenizer"].get(name, {}))
    length, limit = partition["sequence_length"], partition["sequences_per_client"]
    # Validation may overshoot its share by one document; training must not lack it.
    quota = limit * length + data["max_tokens_per_document"] + 1
    files = _files(data)
    collected = _collect(job, tokenizer, quota)
    if _files(data) != files:
        raise ValueError("the data files changed while they were read; run again")
    share = exact(partition["train_val_split"])
    manifest = {**_head(settings, tokenizer, collected), **files}
    provenance = {"settings": _without_paths(settings), "versions": versions()}
    for domain in settings["domains"]:
        documents = collected.documents[domain]
        stream = seeds.generator(data["seed"], "document order", domain)
        packed = split_and_pack(documents, length, tokenizer.eos, share, limit, stream)
        if not len(packed.train) or not len(packed.validation):
            raise ValueError(_too_little(domain, documents, length, float(share), collected))
        manifest["domains"][domain] = _write_domain(folder, domain, documents, packed, provenance)
        report(f"{domain}: {manifest['domains'][domain]}")
    rows = [
        {"domain": domain, "outcome": outcome, "records": count}
        for (domain, outcome), count in collected.outcomes.items()
    ]
    parquet.write(folder / "documents.parquet", DOCUMENTS, rows, provenance)
    atomic.write_text(folder / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True))
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _collect(job: Job, tokenizer: Tokenizer, quota: int) -> Collected:
    """Read the source once, going on where an interrupted preparation left off."""
    settings, path = job.settings, job.folder / CHECKPOINT
    data, source = settings["data"], settings["data"]["source"]
    identity = digest(settings)
    position, start = interrupted.restore(path, identity, settings["domains"], job.report)

    def store(place: Position, so_far: Collected) -> None:
        interrupted.store(path, identity, place.state, so_far)
        job.saved()

    records = SOURCES[source](settings["domains"], data["seed"], position, **data.get(source, {}))
    collected = collect(
        records,
        tokenizer,
        data["max_tokens_per_document"],
        quota,
        start,
        store,
        drop_duplicates=data["duplicates"] == "drop",
    )
    return collected._replace(outcomes=Counter(dict(sorted(collected.outcomes.items()))))


def _head(
    settings: Mapping[str, Any], tokenizer: Tokenizer, collected: Collected
) -> dict[str, Any]:
    return {
        "source": settings["data"]["source"],
        "seed": settings["data"]["seed"],
        "dataset": settings["data"].get("huggingface"),
        "tokenizer": tokenizer.name,
        "tokenizer_sha256": tokenizer.sha256,
        "vocab_size": tokenizer.vocab_size,
        "eos": tokenizer.eos,
        "sequence_length": settings["partition"]["sequence_length"],
        "records": {f"{d or '-'}: {o}": n for (d, o), n in collected.outcomes.items()},
        "duplicates": duplicates.counts(
            collected.copies, settings["domains"], settings["data"]["duplicates"]
        ),
        "domains": {},
    }


def _files(data: Mapping[str, Any]) -> dict[str, Any]:
    """Name files by name and size, not by folder: bytes must not depend on where they lie."""
    if data["source"] != "local":
        return {"files": [], "files_left_out": 0}
    found = local.search(data["local"]["paths"])
    files = [{"name": file.name, "bytes": file.stat().st_size} for file in found.files]
    return {"files": files, "files_left_out": len(found.left_out)}


def _without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in settings.items() if key not in ("data", "tokenizer")}
    kept["data"] = {k: v for k, v in settings["data"].items() if k != "local"}
    if kept["data"]["source"] == "synthetic":
        # Made-up text has no duplicates: its tables keep the bytes they had without this key.
        del kept["data"]["duplicates"]
    return {**kept, "tokenizer": settings["tokenizer"]["name"]}


def _write_domain(
    folder: Path,
    domain: str,
    documents: list[np.ndarray],
    packed: Packed,
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "documents": len(documents),
        "tokens": sum(map(len, documents)),
        "pool": len(packed.train) + len(packed.validation),
    }
    for split, sequences in packed._asdict().items():
        table = sequence_table(sequences, {"sequence": np.arange(len(sequences))})
        parquet.write(folder / f"domain={domain}" / f"{split}.parquet", TOKENS, table, provenance)
        counts[split] = len(sequences)
        counts[f"{split}_sha256"] = hashlib.sha256(sequences.tobytes()).hexdigest()
    return counts


def _too_little(
    domain: str, documents: list[np.ndarray], length: int, share: float, collected: Collected
) -> str:
    seen = {o: n for (d, o), n in collected.outcomes.items() if d in ("", domain)}
    return (
        f"domain {domain!r}: {len(documents)} usable documents with {sum(map(len, documents))}"
        f" tokens are too few for one training and one validation sequence of {length} tokens, if"
        f" training takes {share:g} of them (partition.train_val_split);"
        f" records seen: {seen or 'none'}"
    )
