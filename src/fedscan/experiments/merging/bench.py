"""A base model, its specialists and the evaluation sets of all tasks: accuracies of any model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fedscan.experiments.merging.grid import EVALUATION, model_file
from fedscan.experiments.merging.inputs import TaskInput, read_task
from fedscan.experiments.merging.tables import SPECIALISTS
from fedscan.io import parquet
from fedscan.io.digests import file_sha256
from fedscan.io.tables import Table
from fedscan.models.pretrained import empty_model
from fedscan.params.algebra import Params
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.model_files import WEIGHTS, read_base
from fedscan.pipeline.stage import Job
from fedscan.problems.classification import Classifier, outcome


class Specialist(NamedTuple):
    """Where a specialist is kept, or why there is none."""

    path: Path | None
    sha256: str
    failure: str | None


class Bench:
    """What all evaluations of a base share."""

    def __init__(self, settings: Mapping[str, Any], merging: Path) -> None:
        """Read the base and the evaluation sets.

        Args:
            settings: ``base``, ``tasks``, ``evaluation_batch_size``, ``precision``, ``device``
                and ``threads``.
            merging: folder results/merging.
        """
        torch.set_num_threads(settings["threads"])
        keep_freed_memory()
        self.settings, self._merging = settings, merging
        folder = merging / "bases" / f"base={settings['base']}"
        self.shape, self.base = read_base(folder)
        self.base_sha256 = file_sha256(folder / WEIGHTS)
        self.tasks: dict[str, TaskInput] = {
            task: read_task(
                merging / "tasks" / f"task={task}" / f"subset={EVALUATION}",
                self.shape.padded_vocab_size,
            )
            for task in settings["tasks"]
        }
        model = empty_model(self.shape)
        require_device(settings["device"], "merging")
        self.classifier = Classifier(model, settings["precision"], settings["device"])

    def kept_rows(self, job: Job, tables: Sequence[Table]) -> KeptRows:
        """Return what the job has of ``tables``, one unit per model, kept as they are evaluated."""
        code_counts, progress = self.settings["rerun_on_code_change"], job.scratch / "rows"
        return KeptRows(job.folder, tables, ["model"], code_counts, job.report, progress=progress)

    def facts(self) -> list[Any]:
        """Return what every evaluation depends on, the model aside."""
        chosen = ("evaluation_batch_size", "precision", "device", "threads")
        digests = {task: found.sha256 for task, found in self.tasks.items()}
        return [*(self.settings[name] for name in chosen), digests, self.base_sha256]

    def specialists(self, seed: int) -> dict[tuple[str, float, int], Specialist]:
        """Return the specialists of a seed.

        Args:
            seed: root seed of their training.

        Returns:
            (task, mu, epoch) -> specialist, failed ones included.

        Raises:
            ValueError: if a model is missing or is not the one its table names.
        """
        found = {}
        for task in self.tasks:
            job = f"base={self.settings['base']}/task={task}/seed={seed}"
            folder = self._merging / "specialists" / job
            rows = parquet.read(folder / "specialists.parquet", SPECIALISTS).to_pylist()
            for row in rows:
                found[task, row["mu"], row["epoch"]] = _specialist(folder, row)
        return found

    def accuracies(self, params: Params | None, failure: str | None) -> list[dict[str, Any]]:
        """Evaluate a model on every task.

        Args:
            params: the model; None: there is none.
            failure: why there is none.

        Returns:
            One row per task with the columns that accuracy tables share.
        """
        placed = None if params is None else self.classifier.place(params)
        return [self._accuracy(task, placed, failure) for task in self.tasks]

    def _accuracy(self, task: str, params: Params | None, failure: str | None) -> dict[str, Any]:
        examples = self.tasks[task].examples
        row = {
            "evaluated_on": task,
            "status": "completed",
            "failure": None,
            "examples": len(examples.targets),
            "chance": 100 / len(examples.labels),
        }
        if params is not None:
            size = self.settings["evaluation_batch_size"]
            try:
                found = outcome(self.classifier.scores(params, examples, size), examples.targets)
            except ArithmeticError as error:
                failure = f"{task}: {error}"
            else:
                accuracy = 100 * found.correct / len(examples.targets)
                counts = {"correct": found.correct, "ties": found.ties}
                return {**row, **counts, "accuracy": accuracy}
        failed = {"status": "failed", "failure": failure, "accuracy": None}
        return {**row, **failed, "correct": 0, "ties": 0}


def _specialist(folder: Path, row: Mapping[str, Any]) -> Specialist:
    if row["status"] == "failed":
        return Specialist(None, "", row["failure"])
    path = folder / model_file(row["mu"], row["epoch"])
    if row["model_file"] is None:
        return Specialist(None, "", f"epoch {row['epoch']} is no checkpoint epoch")
    if not path.is_file() or file_sha256(path) != row["model_sha256"]:
        raise ValueError(
            f"{path}: missing or changed since {folder}/specialists.parquet was written; delete"
            " that table to train it again"
        )
    return Specialist(path, row["model_sha256"], None)
