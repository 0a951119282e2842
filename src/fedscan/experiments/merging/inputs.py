"""Examples of a task, read back from the tables of stage ``task_data``."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedscan.experiments.merging.tables import TASK_EXAMPLES, TASK_LABELS
from fedscan.io import parquet
from fedscan.io.digests import arrays_sha256
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
    rows = parquet.read(folder / "examples.parquet", TASK_EXAMPLES)
    labels = parquet.read(folder / "labels.parquet", TASK_LABELS)
    prompts = [np.asarray(ids, np.uint16) for ids in rows["prompt"].to_pylist()]
    words = [np.asarray(ids, np.uint16) for ids in labels["ids"].to_pylist()]
    targets = np.asarray(rows["label"].to_pylist(), np.int64)
    largest = max(int(ids.max()) for ids in (*prompts, *words))
    if largest >= vocab_size:
        raise ValueError(f"{folder}: token id {largest}; the model has {vocab_size} embeddings")
    examples = TaskExamples(prompts, targets, words)
    return TaskInput(examples, arrays_sha256([*prompts, *words, targets]))
