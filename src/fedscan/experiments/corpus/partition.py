"""Stage ``partition``: token tables of a setting's domains -> token sets of K clients."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedscan.data.partition import SPLITS, Holding, exact, partition
from fedscan.experiments.corpus.sequences import sequence_table, to_matrix
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.runner import Log


def run(settings: Mapping[str, Any], tokens: str, folder: str, report: Log) -> None:
    """Write the partition table and the clients' sequences.

    Args:
        settings: ``domains`` of the setting, ``clients``, ``beta``, ``train_val_split``.
        tokens: folder written by stage ``tokens``.
        folder: receives partition.parquet, train.parquet and validation.parquet.
        report: the job's log.

    Raises:
        ValueError: if a client would hold nothing or a token table is damaged.
    """
    pools = _pools(Path(tokens, "manifest.json"), settings["domains"])
    holdings = partition(
        pools,
        settings["domains"],
        settings["clients"],
        exact(settings["beta"]),
        exact(settings["train_val_split"]),
    )
    provenance = {"settings": settings, "versions": versions()}
    rows = [holding._asdict() for holding in holdings]
    parquet.write(f"{folder}/partition.parquet", "partition", rows, provenance)
    for split in SPLITS:
        table = _sequences([h for h in holdings if h.split == split and h.count], tokens, split)
        parquet.write(f"{folder}/{split}.parquet", "sequences", table, provenance)
        report(f"{split}: {table.num_rows} sequences on {settings['clients']} clients")


def _pools(path: Path, domains: Sequence[str]) -> dict[str, int]:
    """Return how many sequences each domain offers."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        return {domain: int(manifest["domains"][domain]["pool"]) for domain in domains}
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path}: damaged ({type(error).__name__}: {error}); delete it to make it again"
        ) from None


def _sequences(holdings: list[Holding], tokens: str, split: str) -> pa.Table:
    pools = {}
    for domain in sorted({holding.domain for holding in holdings}):
        path = Path(tokens, f"domain={domain}", f"{split}.parquet")
        pools[domain] = to_matrix(parquet.read(path, "tokens"), path)
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
