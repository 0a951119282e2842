"""Token sequences between NumPy and the declared tables."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedscan.experiments.corpus.tables import SEQUENCES
from fedscan.io import parquet


def sequence_table(sequences: np.ndarray, columns: Mapping[str, np.ndarray | pa.Array]) -> pa.Table:
    """Return a table with one row per sequence.

    Args:
        sequences: (rows, length) uint16.
        columns: further columns, each with ``rows`` values.

    Returns:
        The columns and ``input_ids``, list<uint16>.
    """
    rows, length = sequences.shape
    offsets = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    ids = pa.ListArray.from_arrays(pa.array(offsets), pa.array(sequences.reshape(-1)))
    return pa.table({**columns, "input_ids": ids})


def to_matrix(table: pa.Table, path: str | Path, vocab_size: int | None = None) -> np.ndarray:
    """Return the sequences of a table as one array, validated.

    Args:
        table: has a column ``input_ids``.
        path: where it came from, for messages.
        vocab_size: ids must be below it; None skips the test.

    Returns:
        (rows, length) uint16, contiguous.

    Raises:
        ValueError: if there is no row, lengths differ or an id is out of range.
    """
    if not table.num_rows:
        raise ValueError(f"{path}: no sequences")
    column = table.column("input_ids").combine_chunks()
    lengths = np.diff(column.offsets.to_numpy())
    if len(set(lengths.tolist())) != 1:
        raise ValueError(f"{path}: sequences of different lengths {sorted(set(lengths.tolist()))}")
    matrix = column.flatten().to_numpy().reshape(table.num_rows, int(lengths[0]))
    if vocab_size is not None and int(matrix.max()) >= vocab_size:
        row = int(np.argmax(matrix.max(axis=1) >= vocab_size))
        raise ValueError(
            f"{path}: row {row}: token id {matrix[row].max()} is not below vocab_size {vocab_size}"
        )
    return np.ascontiguousarray(matrix)


def read_clients(path: str | Path, clients: int, vocab_size: int) -> list[np.ndarray]:
    """Read a partition's sequences, one array per client.

    Args:
        path: train.parquet or validation.parquet of a partition.
        clients: number of clients K.
        vocab_size: ids must be below it.

    Returns:
        K arrays (sequences, length) uint16.

    Raises:
        ValueError: if the file is damaged or a client has no sequence.
    """
    table = parquet.read(path, SEQUENCES)
    matrix = to_matrix(table, path, vocab_size)
    owner = table.column("client").to_numpy()
    parts = [matrix[owner == client] for client in range(clients)]
    empty = [client for client, part in enumerate(parts) if not len(part)]
    if empty or int(owner.max()) >= clients:
        raise ValueError(f"{path}: expected sequences of clients 0..{clients - 1}, none of {empty}")
    return parts
