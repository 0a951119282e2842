"""Examples of a task, read back from the tables of stage ``task_data``."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedscan.io import parquet
from fedscan.problems.classification import TaskExamples


class TaskInput(NamedTuple):
    """Examples with the digest of everything a model sees of them."""

    examples: TaskExamples
    sha256: str


def read_task(folder: Path, vocab_size: int) -> TaskInput:
    """Read one subset of one task.

    Args:
        folder: holds examples.parquet and labels.parquet.
        vocab_size: rows of the embedding that will look the tokens up.

    Returns:
        Prompts, right labels and label tokens.

    Raises:
        ValueError: if a table is damaged or a token id is outside the vocabulary.
    """
    rows = parquet.read(folder / "examples.parquet", "task_examples")
    labels = parquet.read(folder / "labels.parquet", "task_labels")
    prompts = [np.asarray(ids, np.uint16) for ids in rows["prompt"].to_pylist()]
    words = [np.asarray(ids, np.uint16) for ids in labels["ids"].to_pylist()]
    targets = np.asarray(rows["label"].to_pylist(), np.int64)
    largest = max(int(ids.max()) for ids in (*prompts, *words))
    if largest >= vocab_size:
        raise ValueError(f"{folder}: token id {largest}; the model has {vocab_size} embeddings")
    examples = TaskExamples(prompts, targets, words)
    return TaskInput(examples, _digest([*prompts, *words, targets]))


def _digest(parts: Sequence[np.ndarray]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(repr(part.shape).encode())
        hasher.update(part.tobytes())
    return hasher.hexdigest()
