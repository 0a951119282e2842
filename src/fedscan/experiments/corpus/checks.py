"""Checks of partitions: no sequence is held twice, and the counts are those of the table."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.data.partition import SPLITS
from fedscan.experiments.corpus.tables import PARTITION, SEQUENCES
from fedscan.io import parquet
from fedscan.pipeline.checks import Check


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the partitions.

    Args:
        settings: ``partitions``, folders below results/partition.
        results: folder of all results.

    Yields:
        Two checks per partition and split.
    """
    for path in settings["partitions"]:
        folder = results / "partition" / path
        table = parquet.read_frame(folder / "partition.parquet", PARTITION)
        for split in SPLITS:
            held = _held(folder / f"{split}.parquet")
            shared = int(held.duplicated(["domain", "sequence"]).sum())
            detail = f"{len(held)} sequences, {shared} held by two clients"
            yield Check("clients share no sequence", f"{path}/{split}", not shared, detail)
            wanted = table[table["split"] == split].set_index(["client", "domain"])["count"]
            found = held.groupby(["client", "domain"]).size()
            same = found.reindex(wanted.index, fill_value=0).tolist() == wanted.tolist()
            detail = f"{len(held)} sequences, partition table says {wanted.sum()}"
            yield Check("counts match the partition table", f"{path}/{split}", same, detail)


def _held(path: Path) -> pd.DataFrame:
    return parquet.read(path, SEQUENCES).drop_columns(["input_ids"]).to_pandas()
