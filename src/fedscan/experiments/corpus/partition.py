"""Stage ``partition``: token tables of a setting's domains -> token sets of K clients."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedscan.data.partition import SPLITS, Holding, exact, partition
from fedscan.experiments.corpus.sequences import sequence_table, to_matrix
from fedscan.experiments.corpus.tables import PARTITION, SEQUENCES, TOKENS
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.stage import Job


def run(job: Job) -> None:
    """Write the partition table and the clients' sequences.

    Args:
        job: settings: ``domains`` of the setting, ``clients``, ``beta``, ``train_val_split``; input
            ``tokens``, folder written by stage ``tokens``. Its folder receives partition.parquet,
            train.parquet and validation.parquet.

    Raises:
        ValueError: if a client would hold nothing or a token table is damaged.
    """
    settings, tokens = job.settings, job.inputs["tokens"]
    pools = _pools(tokens / "manifest.json", settings["domains"])
    holdings = partition(
        pools,
        settings["domains"],
        settings["clients"],
        exact(settings["beta"]),
        exact(settings["train_val_split"]),
    )
    provenance = {"settings": settings, "versions": versions()}
    rows = [holding._asdict() for holding in holdings]
    parquet.write(job.folder / "partition.parquet", PARTITION, rows, provenance)
    for split in SPLITS:
        table = _sequences([h for h in holdings if h.split == split and h.count], tokens, split)
        parquet.write(job.folder / f"{split}.parquet", SEQUENCES, table, provenance)
        job.report(f"{split}: {table.num_rows} sequences on {settings['clients']} clients")


def _pools(path: Path, domains: Sequence[str]) -> dict[str, int]:
    """Return how many sequences each domain offers."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        return {domain: int(manifest["domains"][domain]["pool"]) for domain in domains}
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path}: damaged ({type(error).__name__}: {error}); delete it to make it again"
        ) from None


def _sequences(holdings: list[Holding], tokens: Path, split: str) -> pa.Table:
    pools = {}
    for domain in sorted({holding.domain for holding in holdings}):
        path = tokens / f"domain={domain}" / f"{split}.parquet"
        pools[domain] = to_matrix(parquet.read(path, TOKENS), path)
        needed = max(h.first + h.count for h in holdings if h.domain == domain)
        if len(pools[domain]) < needed:
            raise ValueError(
                f"{path}: {len(pools[domain])} sequences, and clients hold the first {needed}: not"
                " the file that manifest.json describes; delete it to make it again"
            )
    parts = [pools[h.domain][h.first : h.first + h.count] for h in holdings]
    columns: dict[str, np.ndarray | pa.Array] = {
        "client": np.repeat([h.client for h in holdings], [h.count for h in holdings]),
        "domain": pa.array([h.domain for h in holdings for _ in range(h.count)], pa.string()),
        "sequence": np.concatenate([np.arange(h.first, h.first + h.count) for h in holdings]),
    }
    return sequence_table(np.concatenate(parts), columns)
