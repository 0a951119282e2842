"""Stage ``federated``: one training job, all its hyperparameter values, resumable after any kill.

Each value has one checkpoint file, replaced after every round; a finished value keeps its rows
there until the job's tables are written. A kill between any two writes loses at most one round.
"""

import inspect
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fedscan.federated import cuda_graph, engine
from fedscan.federated.algorithm import Algorithm
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.local_phase import Diverged, local_phase
from fedscan.federated.problem import Problem
from fedscan.federated.recorded_phase import RecordedPhase
from fedscan.grid import value_file, value_label
from fedscan.io import checkpoints, parquet
from fedscan.io.provenance import config_hash, versions
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.models.language_model import Architecture
from fedscan.models.symmetries import permutation_groups
from fedscan.problems.language_model import LanguageModelProblem, Schedule
from fedscan.seeds import derive
from fedscan.stages import run_rows, run_state
from fedscan.stages.gpu_lease import require_device
from fedscan.stages.job import Log, keep_freed_memory
from fedscan.stages.preemption import stop_if_asked
from fedscan.stages.sequences import read_clients

TABLES = run_rows.Rows._fields
# How a local step is launched -> (problem, algorithm) -> local phase of a run.
PHASES: dict[str, Callable[[Problem, Algorithm], engine.LocalPhase]] = {
    "eager": lambda problem, algorithm: local_phase,
    "cuda_graph": partial(RecordedPhase, capture=cuda_graph.capture),
}


def run(
    settings: Mapping[str, Any], partition: str, folder: str, checkpoint_folder: str, report: Log
) -> None:
    """Train every value of a job that is not in its tables yet, and write the tables.

    Args:
        settings: ``job`` axes, ``values`` (hyperparameters per value), sections ``training`` and
            ``model``, ``data_source``, ``tokenizer``, ``rerun_on_code_change``,
            ``keep_final_model`` and the ``code`` fingerprint.
        partition: folder written by stage ``partition``.
        folder: receives a Parquet file for each of ``TABLES``, and models/ if kept.
        checkpoint_folder: holds the job's checkpoints while it runs.
        report: the job's log.

    Raises:
        ValueError: if the configured device is not there.
    """
    require_device(settings["training"]["device"], "training")
    torch.set_num_threads(settings["training"]["threads"])
    keep_freed_memory()
    bench = _Bench(settings, partition)
    kept = _kept_rows(bench, folder, report)
    for index, hyperparameters in enumerate(settings["values"]):
        value = value_label(hyperparameters)
        if value in kept:
            report(f"{value}: already in the tables")
            continue
        report(f"value {index + 1} of {len(settings['values'])}: {value}")
        path = Path(checkpoint_folder, value_file(value))
        kept[value] = _train(bench, hyperparameters, path, folder, report)
    _write(bench, [kept[value_label(h)] for h in settings["values"]], folder)
    shutil.rmtree(checkpoint_folder, ignore_errors=True)


class _Bench:
    """What all values of a job share: data, architecture, identity."""

    def __init__(self, settings: Mapping[str, Any], partition: str) -> None:
        self.settings, self.job = settings, settings["job"]
        self.training, model = settings["training"], settings["model"]
        clients, vocab_size = self.job["clients"], model["vocab_size"]
        self.train = read_clients(Path(partition, "train.parquet"), clients, vocab_size)
        validation = read_clients(Path(partition, "validation.parquet"), clients, vocab_size)
        self.data_sha256 = run_rows.data_sha256([*self.train, *validation])
        self.validation = run_rows.union(validation)
        depth = self.job["depth"]
        layers = BACKBONES[self.job["backbone"]](depth)
        self.architecture = Architecture(depth=depth, attention_layers=layers, **model)
        schedule = {k: self.training[k] for k in Schedule._fields if k in self.training}
        self.schedule = Schedule(local_steps=self.job["local_steps"], **schedule)

    def identity(self, hyperparameters: Mapping[str, Any]) -> dict[str, str]:
        """Return what a row must match to be kept: configuration, data and, if asked, code."""
        model = self.settings["model"]
        return {
            "config_hash": config_hash(self.job, hyperparameters, self.training, model),
            "data_sha256": self.data_sha256,
            "code_hash": self.settings["code"],
        }

    def algorithm(self, hyperparameters: Mapping[str, Any]) -> Algorithm:
        """Return the job's algorithm; a factory that asks for facts of the model gets them."""
        factory = ALGORITHMS[self.job["algorithm"]]
        offered = {"permutation_groups": permutation_groups(self.architecture)}
        asked = inspect.signature(factory).parameters
        return factory(**hyperparameters, **{k: v for k, v in offered.items() if k in asked})

    def problem(self, algorithm: Algorithm) -> LanguageModelProblem:
        """Return the problem of one value; every value and algorithm starts from one model."""
        seed = self.job["seed"]
        model = initialise(self.architecture, derive(seed, "initial model"))
        precision = "float32" if algorithm.full_precision else self.training["precision"]
        return LanguageModelProblem(
            model,
            self.train,
            self.validation,
            self.schedule,
            seed,
            precision,
            self.training["device"],
            self.training["kernels"],
        )

    def matches(self, found: Mapping[str, str], hyperparameters: Mapping[str, Any]) -> bool:
        """Return whether a stored result was made under the present configuration."""
        wanted = self.identity(hyperparameters)
        keys = ["config_hash", "data_sha256"]
        if self.settings["rerun_on_code_change"]:
            keys.append("code_hash")
        return all(found[key] == wanted[key] for key in keys)


def _kept_rows(bench: _Bench, folder: str, report: Log) -> dict[str, run_rows.Rows]:
    """Return the rows of earlier runs of this job that are still valid, by value."""
    paths = [Path(folder, f"{table}.parquet") for table in TABLES]
    if not all(path.exists() for path in paths):
        return {}
    try:
        tables = [parquet.read(p, t).to_pylist() for p, t in zip(paths, TABLES, strict=True)]
    except ValueError as error:
        report(f"earlier results are not usable and are recomputed: {error}")
        return {}
    kept = {}
    for hyperparameters in bench.settings["values"]:
        value = value_label(hyperparameters)
        rows = run_rows.Rows(*([row for row in t if row["value"] == value] for t in tables))
        if len(rows.runs) == 1 and bench.matches(rows.runs[0], hyperparameters):
            kept[value] = rows
    return kept


def _train(
    bench: _Bench, hyperparameters: Mapping[str, Any], path: Path, folder: str, report: Log
) -> run_rows.Rows:
    """Train one value from its checkpoint, if there is a valid one, to the end."""
    algorithm = bench.algorithm(hyperparameters)
    problem = bench.problem(algorithm)
    identity = bench.identity(hyperparameters)
    value = value_label(hyperparameters)
    state, record = run_state.restore(path, problem, algorithm, identity, report, run_rows.Record)
    rounds, timer = bench.training["rounds"], run_rows.Timer(state.round_index)
    phase = PHASES[bench.training["step"]](problem, algorithm)
    try:
        for result in _rounds(problem, algorithm, rounds, state, record, phase):
            record.add(result, problem, value)
            record.require_finite_perplexity()
            run_state.store(path, result.state, record, identity)
            state = result.state
            text = record.status(rounds, timer)
            report(text)
            report.advance(f"{bench.job['algorithm']} {value}", state.round_index, rounds, text)
            stop_if_asked()
    except Diverged as failure:
        record.fail(failure)
        run_state.store(path, state, record, identity)
        report(f"FAILED: {failure}")
    if bench.settings["keep_final_model"]:
        arrays = run_state.to_arrays(state.params)
        facts = {**bench.architecture._asdict(), "round": state.round_index, **identity}
        checkpoints.save(Path(folder, "models", value_file(value)), arrays, facts)
    return record.rows(hyperparameters, _facts(bench, problem, algorithm) | identity)


def _rounds(
    problem: LanguageModelProblem,
    algorithm: Algorithm,
    rounds: int,
    state: engine.RunState,
    record: run_rows.Record,
    phase: engine.LocalPhase,
) -> Iterator[engine.RoundResult]:
    return iter(()) if record.failure else engine.run(problem, algorithm, rounds, state, phase)


def _facts(
    bench: _Bench, problem: LanguageModelProblem, algorithm: Algorithm
) -> dict[str, str | int]:
    training = bench.training
    return {
        "parameters": sum(tensor.numel() for tensor in problem.model.parameters()),
        "kernels": training["kernels"],
        "device": training["device"],
        "step": training["step"],
        "precision": "float32" if algorithm.full_precision else training["precision"],
        "threads": training["threads"],
        "data_source": bench.settings["data_source"],
        "tokenizer": bench.settings["tokenizer"],
    }


def _write(bench: _Bench, rows: list[run_rows.Rows], folder: str) -> None:
    provenance = {
        "job": bench.job,
        "training": bench.training,
        "model": bench.settings["model"],
        "code": bench.settings["code"],
        "versions": versions(),
    }
    # "runs" comes last: it is the file that says a value is there.
    for table in reversed(TABLES):
        flat = [row for value in rows for row in getattr(value, table)]
        parquet.write(f"{folder}/{table}.parquet", table, flat, provenance)
