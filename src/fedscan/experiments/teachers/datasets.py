"""Reading a teacher and its dataset, and noticing a changed byte."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedscan.experiments.teachers.tables import TEACHER_SEQUENCES, TEACHERS
from fedscan.io import parquet
from fedscan.models.selective_ssm.layout import Shape
from fedscan.models.selective_ssm.stability import Margins

SPLITS = ("train", "test")


class Dataset(NamedTuple):
    """A teacher and what it wrote."""

    shape: Shape
    rho: float
    margins: Margins
    params: np.ndarray  # (parameters) float32, of the teacher
    temperature: float
    train: np.ndarray  # (sequences, length) uint8
    test: np.ndarray
    test_nll: float  # nats per token, of the teacher
    digest: str  # of teacher and tokens


def sha256(tokens: np.ndarray) -> str:
    """Return the digest of tokens, sizes included.

    Args:
        tokens: (sequences, length) uint8.

    Returns:
        64 hexadecimal digits.
    """
    head = f"{tokens.shape[0]}x{tokens.shape[1]}:".encode()
    return hashlib.sha256(head + tokens.tobytes()).hexdigest()


def read_datasets(folder: Path, shape: Shape, length: int) -> dict[float, Dataset]:
    """Read all datasets of one (D, N) and verify them against their digests.

    Args:
        folder: written by stage ``teachers``.
        shape: sizes of the layer.
        length: tokens per sequence.

    Returns:
        rho -> dataset.

    Raises:
        ValueError: if a file is damaged or a byte of a teacher or dataset changed; names it.
    """
    sequences = folder / "teacher_sequences.parquet"
    table = parquet.read(sequences, TEACHER_SEQUENCES)
    teachers = parquet.read(folder / "teachers.parquet", TEACHERS).to_pylist()
    return {row["rho"]: _dataset(row, table, folder, shape, length) for row in teachers}


def _dataset(
    row: dict[str, Any], table: pa.Table, folder: Path, shape: Shape, length: int
) -> Dataset:
    where = f"D={shape.d_input}, N={shape.d_state}, rho={row['rho']}"
    params = np.array(row["parameters"], np.float32)
    found = {"parameters": hashlib.sha256(params.tobytes()).hexdigest()}
    tokens = {}
    for split in SPLITS:
        mask = pc.and_(pc.equal(table["rho"], row["rho"]), pc.equal(table["split"], split))
        part = table.filter(mask)["tokens"].combine_chunks()
        flat = np.asarray(part.flatten(), np.uint8)
        if len(flat) != len(part) * length:
            raise ValueError(f"{folder}/teacher_sequences.parquet: {split} of {where}: sequences"
                             f" are not all {length} tokens long")  # fmt: skip
        tokens[split] = np.ascontiguousarray(flat.reshape(-1, length))
        found[split] = sha256(tokens[split])
    for name, digest in found.items():
        if digest != row[f"{name}_sha256"]:
            file = "teachers" if name == "parameters" else "teacher_sequences"
            raise ValueError(
                f"{folder}/{file}.parquet: {name} of {where} changed since it was written;"
                " datasets are never modified: delete the folder to make them again"
            )
    return Dataset(
        shape,
        row["rho"],
        Margins(row["gamma"], row["delta"]),
        params,
        row["temperature"],
        tokens["train"],
        tokens["test"],
        row["test_nll"],
        hashlib.sha256("".join(sorted(found.values())).encode()).hexdigest()[:16],
    )
