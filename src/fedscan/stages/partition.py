"""Stage ``partition``: token tables of a setting's domains -> token sets of K clients."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedscan.data.partition import SPLITS, Holding, exact, partition
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.stages.job import Log
from fedscan.stages.sequences import sequence_table, to_matrix


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
    manifest = json.loads(Path(tokens, "manifest.json").read_text(encoding="utf-8"))
    pools = {domain: manifest["domains"][domain]["pool"] for domain in settings["domains"]}
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


def _sequences(holdings: list[Holding], tokens: str, split: str) -> pa.Table:
    pools = {}
    for domain in sorted({holding.domain for holding in holdings}):
        path = Path(tokens, f"domain={domain}", f"{split}.parquet")
        pools[domain] = to_matrix(parquet.read(path, "tokens"), path)
    parts = [pools[h.domain][h.first : h.first + h.count] for h in holdings]
    columns: dict[str, np.ndarray | pa.Array] = {
        "client": np.repeat([h.client for h in holdings], [h.count for h in holdings]),
        "domain": pa.array([h.domain for h in holdings for _ in range(h.count)], pa.string()),
        "sequence": np.concatenate([np.arange(h.first, h.first + h.count) for h in holdings]),
    }
    return sequence_table(np.concatenate(parts), columns)
