"""Stage ``specialists``: fine-tune a base on one task, once per proximal coefficient.

Each coefficient has one checkpoint file, replaced after every epoch; it carries parameters,
moments and rows. A kill between any two writes loses at most one epoch and changes no byte.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedscan.experiments.merging.grid import model_file
from fedscan.experiments.merging.inputs import read_task
from fedscan.experiments.merging.tables import SPECIALISTS
from fedscan.io.digests import file_sha256
from fedscan.io.provenance import digest, versions
from fedscan.labels import label
from fedscan.models.pretrained import empty_model
from fedscan.params.algebra import norm, subtract
from fedscan.pipeline import tree_state
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.keys import without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.model_files import DTYPES, WEIGHTS, read_base, write_model
from fedscan.pipeline.stage import Job, Log
from fedscan.problems.central_steps import Diverged
from fedscan.problems.classification import Classifier
from fedscan.problems.fine_tuning import (
    EpochResult,
    Recipe,
    TrainingState,
    batches,
    initial_state,
    train_epoch,
)

TREES = ("params", "first", "second")


def run(job: Job) -> None:
    """Train every coefficient that is not in the table yet, and write the table.

    Args:
        job: settings: ``task``, ``seed``, ``batch_size``, section ``fine_tuning``, ``precision``,
            ``device``, ``threads``, ``rerun_on_code_change`` and the ``code`` fingerprint; inputs
            ``model``, the base, and ``examples``, a file beside its labels. Its folder receives
            specialists.parquet and models/.

    Raises:
        ValueError: if an input is damaged or the configured device is not there.
    """
    settings, folder = job.settings, job.folder
    require_device(settings["device"], "merging")
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    bench = _Bench(settings, job.inputs["model"].parent, job.inputs["examples"].parent)

    def holds(rows: Rows) -> bool:
        """Keep a coefficient only with the models that are asked for, unchanged."""
        there = rows[SPECIALISTS.name]
        whole = {r["epoch"] for r in there if r["status"] == "failed" or _whole(r, folder)}
        return bench.kept_epochs <= whole

    code_counts = settings["rerun_on_code_change"]
    kept = KeptRows(folder, [SPECIALISTS], ["mu"], code_counts, job.report, holds)
    mus = settings["fine_tuning"]["mus"]
    for mu in mus:
        found = kept.get((mu,), bench.identity(mu))
        if found is None:
            kept.put((mu,), {SPECIALISTS.name: _train(bench, mu, job)})
        else:
            job.report(f"mu={label(mu)}: already in the table")
            kept.put((mu,), {SPECIALISTS.name: _present(found[SPECIALISTS.name], bench)})
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "base": bench.base_sha256,
        "versions": versions(),
    }
    kept.write([(mu,) for mu in mus], provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


class _Bench:
    """What all coefficients of a job share: data, base, identity."""

    def __init__(self, settings: Mapping[str, Any], base: Path, examples: Path) -> None:
        self.settings = settings
        self.shape, stored = read_base(base)
        self.base_sha256 = file_sha256(base / WEIGHTS)
        self.task, self.data_sha256 = read_task(examples, self.shape.padded_vocab_size)
        model = empty_model(self.shape)
        self.classifier = Classifier(model, settings["precision"], settings["device"])
        self.base = self.classifier.place(stored)
        self.kept_epochs = set(settings["fine_tuning"]["checkpoint_epochs"])
        self.last_epoch = max(self.kept_epochs)

    def recipe(self, mu: float) -> Recipe:
        own = self.settings["fine_tuning"]
        fields = {name: own[name] for name in Recipe._fields if name in own}
        return Recipe(**fields, batch_size=self.settings["batch_size"], mu=mu)

    def identity(self, mu: float) -> dict[str, str]:
        """Return what a row must match to be kept: configuration, data, base and code."""
        chosen = ("task", "seed", "precision", "device", "threads")
        facts = [self.settings[name] for name in chosen]
        parts = [*facts, self.recipe(mu)._asdict(), self.base_sha256, self.data_sha256]
        return {"config_hash": digest(parts), "code_hash": self.settings["code"]}


def _present(rows: Sequence[Mapping[str, Any]], bench: _Bench) -> list[dict[str, Any]]:
    """Return kept rows as this configuration has them."""
    # What an earlier list of checkpoint epochs kept beyond the present one is not named.
    unnamed = {"model_file": None, "model_sha256": None}
    return [
        dict(row) if row["epoch"] in bench.kept_epochs else {**row, **unnamed}
        for row in rows
        if row["epoch"] <= bench.last_epoch
    ]


def _whole(row: Mapping[str, Any], folder: Path) -> bool:
    if row["model_file"] is None:
        return False
    path = folder / row["model_file"]
    return path.is_file() and file_sha256(path) == row["model_sha256"]


def _train(bench: _Bench, mu: float, job: Job) -> list[dict[str, Any]]:
    """Train one coefficient from its checkpoint, if there is a valid one, to the end."""
    path, report = job.scratch / f"mu={label(mu)}.safetensors", job.report
    recipe, task, seed = bench.recipe(mu), bench.settings["task"], bench.settings["seed"]
    identity = bench.identity(mu)
    state, rows = _restore(path, bench, identity, report)
    examples = len(bench.task.targets)
    while state.epoch < bench.last_epoch and not any(r["status"] == "failed" for r in rows):
        epoch = state.epoch + 1
        plan = batches(examples, recipe.batch_size, seed, task, epoch)
        try:
            result = train_epoch(bench.classifier, bench.task, bench.base, recipe, state, plan)
        except Diverged as failure:
            rows += _failed(bench, mu, epoch, failure, identity)
            report(f"FAILED: mu={label(mu)}: {failure}")
            break
        rows.append(_row(bench, mu, result, job.folder, identity))
        state = result.state
        _store(path, state, rows, identity)
        text = f"mu={label(mu)}: epoch {epoch}/{bench.last_epoch}: loss {result.train_loss:.4f}"
        report(text)
        report.advance(f"{task} mu={label(mu)}", epoch, bench.last_epoch, text)
        job.saved()
    return rows


def _row(
    bench: _Bench, mu: float, result: EpochResult, folder: Path, identity: Mapping[str, str]
) -> dict[str, Any]:
    """Keep the model, if the epoch is one of the checkpoints, and return the epoch's row."""
    state, file, found = result.state, None, None
    if state.epoch in bench.kept_epochs:
        file = model_file(mu, state.epoch)
        dtype = DTYPES[bench.settings["precision"]]
        write_model(folder / file, {name: t.to(dtype) for name, t in state.params.items()})
        found = file_sha256(folder / file)
    return {
        "mu": mu,
        "epoch": state.epoch,
        "status": "completed",
        "failure": None,
        "failed_step": None,
        "examples": len(bench.task.targets),
        "steps": result.steps,
        "train_loss": result.train_loss,
        "gradient_norm": result.gradient_norm,
        "clipped_steps": result.clipped_steps,
        "displacement": norm(subtract(state.params, bench.base)),
        "model_file": file,
        "model_sha256": found,
        **identity,
    }


def _failed(
    bench: _Bench, mu: float, first: int, failure: Diverged, identity: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return rows of the epochs that a failure leaves without a model."""
    numbers = dict.fromkeys(("train_loss", "gradient_norm", "displacement"), math.nan)
    return [
        {
            "mu": mu,
            "epoch": epoch,
            "status": "failed",
            "failure": str(failure),
            "failed_step": failure.step,
            "examples": len(bench.task.targets),
            "steps": failure.step,
            "clipped_steps": 0,
            "model_file": None,
            "model_sha256": None,
            **numbers,
            **identity,
        }
        for epoch in range(first, bench.last_epoch + 1)
    ]


def _restore(
    path: Path, bench: _Bench, identity: Mapping[str, str], report: Log
) -> tuple[TrainingState, list[dict[str, Any]]]:
    found = tree_state.restore(path, TREES, bench.base, identity, report)
    if found is None:
        return initial_state(bench.base), []
    trees, record = found
    report(f"resuming after epoch {record['epoch']}")
    return TrainingState(record["epoch"], *trees), record["rows"]


def _store(
    path: Path, state: TrainingState, rows: list[dict[str, Any]], identity: Mapping[str, str]
) -> None:
    trees = dict(zip(TREES, state[1:], strict=True))
    tree_state.store(path, trees, {"epoch": state.epoch, "rows": rows}, identity)
