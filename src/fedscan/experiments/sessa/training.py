"""Stage ``sessa_training``: one mixer on one task, per width, seed and learning rate.

Each run has one checkpoint file, replaced every few steps, with moments and rows: a kill between
any two writes loses some steps and changes no byte.
"""

import itertools
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedscan.experiments.sessa.grid import Unit
from fedscan.experiments.sessa.inputs import read_data, sequences
from fedscan.experiments.sessa.model_files import model_file, write_model
from fedscan.experiments.sessa.scores import accuracy_rows
from fedscan.experiments.sessa.tables import ACCURACY, CURVES, RUNS, TRAINING_TABLES
from fedscan.io.digests import file_sha256
from fedscan.io.provenance import digest, versions
from fedscan.models.sequence_model import initialise
from fedscan.models.sequence_shape import SequenceShape, parameters
from fedscan.params.algebra import Params
from fedscan.pipeline import tree_state
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.keys import without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job, Log
from fedscan.problems import scheduled_training
from fedscan.problems.central_steps import Diverged
from fedscan.problems.scheduled_training import (
    Recipe,
    State,
    batch_rows,
    learning_rate,
)
from fedscan.problems.sequence_task import SequenceTask
from fedscan.seeds import derive

TREES = ("params", "first", "second")
# Steps between checkpoints, at most; every validation is one too.
CHECKPOINT_EVERY = 200
# Losses whose mean is compared with chance.
WINDOW = 20
# Share of the steps whose losses are averaged.
LAST = 4


def run(job: Job) -> None:
    """Train every run that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``task``, ``mixer``, ``shapes`` (width -> fields of ``SequenceShape``),
            ``units`` (fields of ``Unit``), ``steps``, section ``training``,
            ``rerun_on_code_change`` and the ``code`` fingerprint; input ``examples``. Its folder
            receives a Parquet file for each of ``TRAINING_TABLES`` and models/.

    Raises:
        ValueError: if an input is damaged or the configured device is not there.
    """
    settings, folder = job.settings, job.folder
    training = settings["training"]
    require_device(training["device"], "sessa.training")
    torch.set_num_threads(training["threads"])
    keep_freed_memory()
    bench = Bench(settings, job.inputs["examples"])
    units = [Unit(*fields) for fields in settings["units"]]
    kept = KeptRows(
        folder, TRAINING_TABLES, Unit._fields, settings["rerun_on_code_change"], job.report,
        lambda rows: whole(rows[RUNS.name], folder),
    )  # fmt: skip
    for unit in units:
        if kept.get(unit, bench.identity(unit)) is None:
            kept.put(unit, _train(bench, unit, job))
        else:
            job.report(f"{unit.name}: already in the table")
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "data": bench.data.sha256,
        "versions": versions(),
    }
    kept.write(units, provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


def whole(rows: Sequence[Mapping[str, Any]], folder: Path) -> bool:
    """Return whether a run's model is there, unchanged, or it failed.

    Args:
        rows: the run's, of table ``sessa_runs``.
        folder: of the table.
    """
    if len(rows) != 1:
        return False
    (row,) = rows
    if row["model_file"] is None:
        return bool(row["status"] == "failed")
    path = folder / row["model_file"]
    return path.is_file() and file_sha256(path) == row["model_sha256"]


class Bench:
    """What all runs of a job share: data and shapes."""

    def __init__(self, settings: Mapping[str, Any], examples: Path) -> None:
        """Read the data of ``settings['task']``."""
        self.settings, self.training = settings, settings["training"]
        self.shapes = {int(w): SequenceShape(*f) for w, f in settings["shapes"].items()}
        self.data = read_data(examples, next(iter(self.shapes.values())))
        self.train = sequences(self.data.parts["train", 1])
        self.validation = sequences(self.data.parts["validation", 1])

    def recipe(self, unit: Unit) -> Recipe:
        """Return how a run is trained."""
        own = {name: self.training[name] for name in Recipe._fields if name in self.training}
        return Recipe(**{**own, "steps": self.settings["steps"], "lr": unit.lr})

    def identity(self, unit: Unit) -> dict[str, str]:
        """Return what a row must match to be kept: configuration, data and code."""
        chosen = ("validate_every", "eval_batch_size", "precision", "device", "threads")
        parts = [
            self.settings["task"], list(self.shapes[unit.width]), list(unit),
            self.recipe(unit)._asdict(), {name: self.training[name] for name in chosen},
            self.data.sha256,
        ]  # fmt: skip
        return {"config_hash": digest(parts), "code_hash": self.settings["code"]}

    def task(self, unit: Unit) -> tuple[SequenceTask, Params]:
        """Return a run's task and its initial parameters."""
        # The mixer is no axis: models of one shape start alike.
        model = initialise(self.shapes[unit.width], derive(unit.seed, "initial model"))
        task = SequenceTask(model, self.training["precision"], self.training["device"])
        start = {name: tensor.detach() for name, tensor in model.named_parameters()}
        return task, task.place(start)


def _train(bench: Bench, unit: Unit, job: Job) -> Rows:
    """Train one run from its checkpoint, if there is a valid one, to the end."""
    path, report = job.scratch / f"{unit.name}.safetensors", job.report
    recipe, identity = bench.recipe(unit), bench.identity(unit)
    task, initial = bench.task(unit)
    state, curve = _restore(path, initial, identity, report)
    failure: Diverged | None = None
    try:
        for stop in _stops(recipe.steps, bench.training["validate_every"], state.step):
            state, rows = _steps(bench, unit, task, recipe, state, stop)
            curve += rows
            _store(path, state, curve, identity)
            last = curve[-1]
            text = f"{unit.name}: step {stop}/{recipe.steps}: loss {last['loss']:.4f}"
            if last["validation_accuracy"] is not None:
                text += f", validation accuracy {last['validation_accuracy']:.3f}"
            report(text)
            title = f"{bench.settings['task']} {bench.settings['mixer']}"
            report.advance(title, stop, recipe.steps, text)
            job.saved()
    except Diverged as found:
        failure = found
        report(f"FAILED: {unit.name}: {failure}")
    return _rows(bench, unit, task, state, curve, failure, job.folder)


def _stops(steps: int, validate_every: int, done: int) -> list[int]:
    """Return the steps after which there is a checkpoint: the last, and those of validations."""
    marks = {steps, *range(validate_every, steps, validate_every)}
    marks |= set(range(CHECKPOINT_EVERY, steps, CHECKPOINT_EVERY))
    return sorted(mark for mark in marks if mark > done)


def _steps(
    bench: Bench, unit: Unit, task: SequenceTask, recipe: Recipe, state: State, stop: int
) -> tuple[State, list[dict[str, Any]]]:
    order = batch_rows(
        len(bench.train.tokens), recipe.batch_size, unit.seed, bench.settings["task"]
    )
    batches = [bench.train.only(rows) for rows in itertools.islice(order, state.step, stop)]
    found = scheduled_training.train(task.gradient, batches, recipe, state)
    rows = [
        {
            **unit._asdict(),
            "step": step,
            "loss": loss,
            "step_lr": learning_rate(recipe, step),
            "gradient_norm": norm,
            "validation_loss": None,
            "validation_accuracy": None,
        }
        for step, (loss, norm) in enumerate(
            zip(found.losses, found.norms, strict=True), state.step + 1
        )
    ]
    if stop % bench.training["validate_every"] == 0 or stop == recipe.steps:
        scored = task.score(
            found.state.params, bench.validation, bench.data.allowed,
            bench.training["eval_batch_size"],
        )  # fmt: skip
        rows[-1]["validation_loss"] = float(scored.loss.mean())
        rows[-1]["validation_accuracy"] = float(scored.correct.mean())
    return found.state, rows


def _rows(
    bench: Bench,
    unit: Unit,
    task: SequenceTask,
    state: State,
    curve: list[dict[str, Any]],
    failure: Diverged | None,
    folder: Path,
) -> Rows:
    shape, failed = bench.shapes[unit.width], failure is not None
    losses = [row["loss"] for row in curve]
    baselines = bench.data.baselines
    chance = -math.log(baselines["chance"]) if "chance" in baselines else None
    file, found, accuracy = None, None, []
    if not failed:
        file = model_file(unit)
        write_model(folder / file, shape, state.params, bench.identity(unit))
        found = file_sha256(folder / file)
        for (split, factor), rows in bench.data.parts.items():
            if split == "train":
                continue
            scored = task.score(
                state.params, sequences(rows), bench.data.allowed,
                bench.training["eval_batch_size"],
            )  # fmt: skip
            where = {**unit._asdict(), "split": split, "factor": factor}
            accuracy += [{**where, **row} for row in accuracy_rows(rows, scored)]
    last = curve[-1] if curve and not failed else {}
    row = {
        **unit._asdict(),
        "status": "failed" if failed else "completed",
        "failure": None if failure is None else str(failure),
        "failed_step": None if failure is None else failure.step,
        "d_model": shape.d_model,
        "d_state": shape.d_state,
        "parameters": parameters(shape),
        "steps": len(curve),
        "train_loss": math.nan
        if failed
        else float(np.mean(losses[-max(1, len(losses) // LAST) :])),
        "validation_loss": last.get("validation_loss", math.nan),
        "validation_accuracy": last.get("validation_accuracy", math.nan),
        "chance_loss": chance,
        "steps_to_beat_chance": None if chance is None else _first_below(losses, chance),
        "model_file": file,
        "model_sha256": found,
        **bench.identity(unit),
    }
    return {RUNS.name: [row], CURVES.name: curve, ACCURACY.name: accuracy}


def _first_below(losses: Sequence[float], level: float) -> int | None:
    """Return the first step whose last losses have a mean below a level."""
    if len(losses) < WINDOW:
        return None
    means = np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")
    below = np.flatnonzero(means < level)
    return int(below[0]) + WINDOW if len(below) else None


def _restore(
    path: Path, initial: Params, identity: Mapping[str, str], report: Log
) -> tuple[State, list[dict[str, Any]]]:
    found = tree_state.restore(path, TREES, initial, identity, report)
    if found is None:
        return scheduled_training.start(initial), []
    trees, record = found
    report(f"resuming after step {record['step']}")
    return State(record["step"], *trees), record["curve"]


def _store(
    path: Path, state: State, curve: list[dict[str, Any]], identity: Mapping[str, str]
) -> None:
    trees = dict(zip(TREES, state[1:], strict=True))
    tree_state.store(path, trees, {"step": state.step, "curve": curve}, identity)
