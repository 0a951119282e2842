"""A task's sequences as stages of this room read them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedscan.experiments.sessa.example import VOCABULARY, Vocabulary
from fedscan.experiments.sessa.tables import EXAMPLES
from fedscan.io import parquet
from fedscan.io.digests import file_sha256
from fedscan.models.sequence_shape import SequenceShape
from fedscan.problems.sequence_task import TaskSequences

Row = Mapping[str, Any]


class TaskData(NamedTuple):
    """A task's data.

    Attributes:
        vocabulary: of its ids.
        baselines: name -> accuracy of a rule that needs no learning.
        parts: (split, factor) -> rows of table ``sessa_examples``.
        sha256: digest of the file.
    """

    vocabulary: Vocabulary
    baselines: dict[str, float]
    parts: dict[tuple[str, int], list[Row]]
    sha256: str

    @property
    def allowed(self) -> range:
        """Ids an answer may be."""
        return range(self.vocabulary.first_answer, self.vocabulary.last_answer + 1)


def read_data(file: Path, shape: SequenceShape) -> TaskData:
    """Read a task's sequences.

    Args:
        file: sessa_examples.parquet, beside its vocabulary.
        shape: of a model that is to read them.

    Returns:
        The data.

    Raises:
        ValueError: if a file is damaged, or has ids that the model has no row for.
    """
    vocabulary, baselines = read_vocabulary(file.parent)
    parts: dict[tuple[str, int], list[Row]] = {}
    for row in parquet.read(file, EXAMPLES).to_pylist():
        parts.setdefault((row["split"], row["factor"]), []).append(row)
    made_with = json.loads(parquet.read_provenance(file)).get("vocabulary_sha256")
    if file_sha256(file.parent / VOCABULARY) != made_with:
        raise ValueError(
            f"{file.parent / VOCABULARY}: not what {file.name} was made with; delete the folder to"
            " make both again"
        )
    if vocabulary.size > shape.vocab_size:
        raise ValueError(
            f"{file}: {vocabulary.size} ids, and the model has {shape.vocab_size}; delete the"
            " folder to make it again"
        )
    return TaskData(vocabulary, baselines, parts, file_sha256(file))


def sequences(rows: list[Row]) -> TaskSequences:
    """Return rows of ``sessa_examples`` as a model reads them.

    Args:
        rows: of the table.

    Returns:
        Tokens and the answer at every position.
    """
    return TaskSequences([np.array(row["tokens"]) for row in rows], [_answers(row) for row in rows])


def _answers(row: Row) -> np.ndarray:
    found = np.full(row["length"], -1)
    found[row["places"]] = row["answers"]
    return found


def read_vocabulary(folder: Path) -> tuple[Vocabulary, dict[str, float]]:
    """Read what the ids of a task are, and what needs no learning.

    Args:
        folder: where stage ``sessa_data`` wrote it.

    Returns:
        The vocabulary; name -> accuracy of a rule that needs no learning.

    Raises:
        ValueError: if the file is missing or damaged.
    """
    path = folder / VOCABULARY
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        baselines = known.pop("baselines")
        return Vocabulary(**known), baselines
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path}: damaged or missing ({error}); delete the folder to make it again"
        ) from None
