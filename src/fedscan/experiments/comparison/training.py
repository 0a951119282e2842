"""Stage ``federated``: one training job, all its hyperparameter values, resumable after any kill.

Each value has one checkpoint file, replaced after every round; a finished value keeps its rows
there until the job's tables are written. A kill between any two writes loses at most one round.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.comparison import rows as run_rows
from fedscan.experiments.comparison.tables import IDENTITY, JOB_TABLES, RUNS, last_round
from fedscan.experiments.corpus.sequences import read_clients
from fedscan.federated import cuda_graph, engine
from fedscan.federated.algorithm import Algorithm
from fedscan.federated.build import build
from fedscan.federated.local_phase import Diverged, local_phase
from fedscan.federated.problem import Problem
from fedscan.federated.recorded_phase import RecordedPhase
from fedscan.io import checkpoints
from fedscan.io.digests import arrays_sha256
from fedscan.io.provenance import config_hash, versions
from fedscan.labels import round_file, value_file, value_label
from fedscan.models.architecture import Architecture, to_facts
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.models.symmetries import permutation_groups
from fedscan.pipeline import run_state
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job
from fedscan.pipeline.timer import Timer
from fedscan.problems.language_model import LanguageModelProblem, Schedule
from fedscan.seeds import derive

UNIT = ("value",)
# How a local step is launched -> (problem, algorithm) -> local phase of a run.
PHASES: dict[str, Callable[[Problem, Algorithm], engine.LocalPhase]] = {
    "eager": lambda _problem, _algorithm: local_phase,
    "cuda_graph": partial(RecordedPhase, capture=cuda_graph.capture),
}


def run(job: Job) -> None:
    """Train every value of a job that is not in its tables yet, and write the tables.

    Args:
        job: settings: ``job`` axes, ``values`` (hyperparameters per value), sections ``training``
            and ``model``, ``data_source``, ``tokenizer``, ``rerun_on_code_change``,
            ``keep_final_model``, ``keep_model_rounds`` and the ``code`` fingerprint; input
            ``partition``, folder written by stage ``partition``. Its folder receives a Parquet file
            for each of ``JOB_TABLES``, and models/ if kept.

    Raises:
        ValueError: if the configured device is not there.
    """
    settings, training = job.settings, job.settings["training"]
    require_device(training["device"], "training")
    torch.set_num_threads(training["threads"])
    keep_freed_memory()
    bench = _Bench(settings, job.inputs["partition"])
    code_counts = settings["rerun_on_code_change"]
    kept = KeptRows(job.folder, JOB_TABLES, UNIT, code_counts, job.report, one_row)
    runs = [bench.run(hyperparameters) for hyperparameters in settings["values"]]
    for index, one in enumerate(runs):
        found = kept.get((one.value,), one.identity)
        if found is not None:
            (row,) = found[RUNS.name]
            missing = _missing_models(one, job, row, last_round(row) + 1)
            if not missing:
                job.report(f"{one.value}: already in the tables")
                continue
            job.report(f"{one.value}: trained again for {', '.join(map(str, missing))}")
        job.report(f"value {index + 1} of {len(runs)}: {one.value}")
        kept.put((one.value,), _train(one, job)._asdict())
    provenance = {
        "job": settings["job"],
        "training": training,
        "model": settings["model"],
        "code": settings["code"],
        "versions": versions(),
    }
    kept.write([(one.value,) for one in runs], provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


def one_row(rows: Rows) -> bool:
    """Keep a value only with its one row."""
    return len(rows[RUNS.name]) == 1


class _Run(NamedTuple):
    """One value of a job, made once: what it is called, what it must match, what trains it."""

    value: str
    hyperparameters: Mapping[str, Any]
    identity: Mapping[str, str]
    algorithm: Algorithm
    bench: "_Bench"

    def problem(self) -> LanguageModelProblem:
        """Return its problem; every value and algorithm starts from one model."""
        bench, training = self.bench, self.bench.training
        seed = bench.job["seed"]
        return LanguageModelProblem(
            initialise(bench.architecture, derive(seed, "initial model")),
            bench.train,
            bench.validation,
            bench.schedule,
            seed,
            self.precision,
            training["device"],
            training["kernels"],
        )

    @property
    def precision(self) -> str:
        """Precision of forward and backward passes."""
        return "float32" if self.algorithm.full_precision else self.bench.training["precision"]


class _Bench:
    """What all values of a job share: data and architecture."""

    def __init__(self, settings: Mapping[str, Any], partition: Path) -> None:
        self.settings, self.job = settings, settings["job"]
        self.training, model = settings["training"], settings["model"]
        clients, vocab_size = self.job["clients"], model["vocab_size"]
        self.train = read_clients(partition / "train.parquet", clients, vocab_size)
        validation = read_clients(partition / "validation.parquet", clients, vocab_size)
        self.data_sha256 = arrays_sha256([*self.train, *validation])
        # The server's validation set is all clients'.
        self.validation = np.concatenate(validation)
        depth = self.job["depth"]
        kinds = BACKBONES[self.job["backbone"]](depth)
        self.architecture = Architecture(mixers=kinds, **model)
        schedule = {k: self.training[k] for k in Schedule._fields if k in self.training}
        self.schedule = Schedule(local_steps=self.job["local_steps"], **schedule)

    def run(self, hyperparameters: Mapping[str, Any]) -> _Run:
        """Return the run of one value."""
        model = self.settings["model"]
        identity = {
            "config_hash": config_hash(self.job, hyperparameters, self.training, model),
            "data_sha256": self.data_sha256,
            "code_hash": self.settings["code"],
        }
        facts = {"permutation_groups": permutation_groups(self.architecture)}
        algorithm = build(self.job["algorithm"], hyperparameters, facts)
        return _Run(value_label(hyperparameters), hyperparameters, identity, algorithm, self)


def _train(one: _Run, job: Job) -> run_rows.Rows:
    """Train one value from its checkpoint, if there is a valid one, to the end."""
    bench, training, algorithm = one.bench, one.bench.training, one.algorithm
    path = job.scratch / value_file(one.value)
    problem = one.problem()
    state, record = run_state.restore(
        path, problem, algorithm, one.identity, job.report, run_rows.Record
    )
    if _missing_models(one, job, one.identity, state.round_index):
        job.report("starting over: a model that is to be kept is of a round before the checkpoint")
        path.unlink(missing_ok=True)
        state, record = run_state.restore(
            path, problem, algorithm, one.identity, job.report, run_rows.Record
        )
    # The initial model, or the checkpoint's own if its round was not to be kept before.
    _keep_model(one, job, state)
    rounds, timer = training["rounds"], Timer(state.round_index)
    phase = PHASES[training["step"]](problem, algorithm)
    try:
        for result in _rounds(problem, algorithm, rounds, state, record, phase):
            record.add(result, problem, one.value)
            record.require_finite_perplexity()
            # Before the checkpoint: a round that is on disk has its model.
            _keep_model(one, job, result.state)
            run_state.store(path, result.state, record, one.identity)
            state = result.state
            text = record.status(rounds, timer)
            job.report(text)
            title = f"{bench.job['algorithm']} {one.value}"
            job.report.advance(title, state.round_index, rounds, text)
            job.saved()
    except Diverged as failure:
        record.fail(failure)
        run_state.store(path, state, record, one.identity)
        job.report(f"FAILED: {failure}")
    if bench.settings["keep_final_model"]:
        _save_model(one, job.folder / "models" / value_file(one.value), state)
    facts = {
        "parameters": sum(tensor.numel() for tensor in problem.model.parameters()),
        "kernels": training["kernels"],
        "device": training["device"],
        "step": training["step"],
        "precision": one.precision,
        "threads": training["threads"],
        "data_source": bench.settings["data_source"],
        "tokenizer": bench.settings["tokenizer"],
        **one.identity,
    }
    return record.rows(one.value, one.hyperparameters, facts)


def _missing_models(one: _Run, job: Job, made_of: Mapping[str, Any], end: int) -> list[Path]:
    """Return the models of rounds before ``end`` that are to be kept and are not there.

    A file that has other hashes than ``made_of`` is an earlier training's.
    """
    hashes = {name: made_of[name] for name in IDENTITY}
    wanted = [r for r in one.bench.settings["keep_model_rounds"] if r < end]
    files = [round_file(one.value, r) for r in wanted]
    return [Path(f) for f in files if not checkpoints.holds(job.folder / f, hashes)]


def _keep_model(one: _Run, job: Job, state: engine.RunState) -> None:
    if state.round_index in one.bench.settings["keep_model_rounds"]:
        _save_model(one, job.folder / round_file(one.value, state.round_index), state)


def _save_model(one: _Run, path: Path, state: engine.RunState) -> None:
    arrays = run_state.to_arrays(state.params)
    facts = {**to_facts(one.bench.architecture), "round": state.round_index, **one.identity}
    checkpoints.save(path, arrays, facts)


def _rounds(
    problem: LanguageModelProblem,
    algorithm: Algorithm,
    rounds: int,
    state: engine.RunState,
    record: run_rows.Record,
    phase: engine.LocalPhase,
) -> Iterator[engine.RoundResult]:
    return iter(()) if record.failure else engine.run(problem, algorithm, rounds, state, phase)
