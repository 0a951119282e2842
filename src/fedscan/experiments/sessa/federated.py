"""Stage ``sessa_federated``: one mixer on one task, trained by one federated algorithm.

A run is checkpointed after every round; a kill between any two writes changes no byte.
"""

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedscan.experiments.sessa.clients import Holding, holding_rows, holdings, rows_of
from fedscan.experiments.sessa.grid import FederatedUnit
from fedscan.experiments.sessa.inputs import read_data, sequences
from fedscan.experiments.sessa.profiles import gain_and_c2, inputs, routing
from fedscan.experiments.sessa.tables import (
    FEDERATED_CLIENTS,
    FEDERATED_ROUNDS,
    FEDERATED_RUNS,
    FEDERATED_TABLES,
)
from fedscan.federated import engine
from fedscan.federated.algorithm import Algorithm, Message, ServerStep, State
from fedscan.federated.build import build
from fedscan.federated.local_phase import Diverged
from fedscan.io.provenance import digest, versions
from fedscan.measure.drift import drift
from fedscan.models.sequence_model import SequenceModel, initialise
from fedscan.models.sequence_shape import SequenceShape, parameters
from fedscan.models.sequence_symmetries import permutation_groups
from fedscan.models.sessa import Sessa
from fedscan.params.algebra import Params, norm
from fedscan.pipeline import run_state
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.keys import without
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job
from fedscan.problems.language_model import Schedule
from fedscan.problems.sequence_task import Scored, SequenceClients, SequenceTask
from fedscan.seeds import derive

GAIN_BIAS = ".gain_bias"
GAINS = (".gain_proj.weight", GAIN_BIAS)
# Validation sequences on which gains and routing are measured.
PROBE = 8


@dataclass
class Record:
    """Rows of a run so far, and its failure, if any."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    failure: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Record":
        """Read what ``to_json`` wrote."""
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-like data; floats keep all digits."""
        return asdict(self)


def run(job: Job) -> None:
    """Train every run that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``task``, ``mixer``, ``algorithm``, ``shape``, ``units`` (fields of
            ``FederatedUnit`` and hyperparameters), ``clients``, ``rounds``, ``local_steps``,
            ``lr``, ``training``, ``rerun_on_code_change`` and the ``code`` fingerprint; input
            ``examples``. Its folder receives a Parquet file for each of ``FEDERATED_TABLES``.

    Raises:
        ValueError: if an input is damaged or the configured device is not there.
    """
    settings = job.settings
    require_device(settings["training"]["device"], "sessa.training")
    torch.set_num_threads(settings["training"]["threads"])
    keep_freed_memory()
    bench = _Bench(settings, job.inputs["examples"])
    kept = KeptRows(
        job.folder, FEDERATED_TABLES, FederatedUnit._fields, settings["rerun_on_code_change"],
        job.report, _complete,
    )  # fmt: skip
    units = []
    for fields, values in settings["units"]:
        unit = FederatedUnit(*fields)
        units.append(tuple(unit))
        if kept.get(tuple(unit), bench.identity(unit)) is None:
            kept.put(tuple(unit), _Run(bench, unit, values).train(job))
        else:
            job.report(f"{unit.name}: already in the table")
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "data": bench.data.sha256,
        "versions": versions(),
    }
    kept.write(units, provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


def _complete(rows: Rows) -> bool:
    """Keep a run only with its one row."""
    return len(rows[FEDERATED_RUNS.name]) == 1


def guarded(algorithm: Algorithm, limit: float | None) -> Algorithm:
    """Return an algorithm whose server clips every gain's bias after its step.

    Args:
        algorithm: any.
        limit: largest |b_gamma|; None leaves the algorithm as it is.

    Returns:
        The algorithm; a model without gains is not changed by it.
    """
    if limit is None:
        return algorithm

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        step = algorithm.server_update(params, state, message)
        clipped = {
            name: tensor.clamp(-limit, limit) if name.endswith(GAIN_BIAS) else tensor
            for name, tensor in step.params.items()
        }
        return step._replace(params=clipped)

    return algorithm._replace(server_update=server_update)


class _Bench:
    """What all runs of a job share."""

    def __init__(self, settings: Mapping[str, Any], examples: Path) -> None:
        self.settings, self.training = settings, settings["training"]
        self.shape = SequenceShape(*settings["shape"])
        self.data = read_data(examples, self.shape)
        self.train = sequences(self.data.parts["train", 1])
        self.validation = sequences(self.data.parts["validation", 1])
        self.test = sequences(self.data.parts["test", 1])
        rows = self.data.parts["validation", 1][:PROBE]
        length = min(row["length"] for row in rows)
        self.probe = torch.tensor([row["tokens"][:length] for row in rows])

    def identity(self, unit: FederatedUnit) -> dict[str, str]:
        """Return what a row must match to be kept."""
        names = ("task", "algorithm", "clients", "rounds", "local_steps", "lr", "training")
        own = [self.settings[name] for name in names]
        parts = [*own, list(self.shape), list(unit), self.data.sha256]
        return {"config_hash": digest(parts), "code_hash": self.settings["code"]}

    def held(self, beta: float) -> list[Holding]:
        """Return which client holds what."""
        sources = [row["source"] for row in self.data.parts["train", 1]]
        return holdings(sources, self.settings["clients"], beta)


class _Run:
    """One run: its problem, algorithm and measurements."""

    def __init__(self, bench: _Bench, unit: FederatedUnit, values: Mapping[str, Any]) -> None:
        self.bench, self.unit, training = bench, unit, bench.training
        self.held = bench.held(unit.beta)
        own = {name: training[name] for name in Schedule._fields if name in training}
        schedule = Schedule(
            **own, lr=bench.settings["lr"], local_steps=bench.settings["local_steps"]
        )
        model = initialise(bench.shape, derive(unit.seed, "initial model"))
        start = {name: tensor.detach() for name, tensor in model.named_parameters()}
        self.task = SequenceTask(model, training["precision"], training["device"])
        clients = [
            bench.train.only(rows_of(self.held, client))
            for client in range(bench.settings["clients"])
        ]
        self.problem = SequenceClients(
            self.task, start, clients, bench.validation, schedule, unit.seed
        )
        facts = {"permutation_groups": permutation_groups(bench.shape)}
        algorithm = build(bench.settings["algorithm"], values, facts)
        self.algorithm = guarded(algorithm, unit.gain_limit)
        self.measured = SequenceModel(bench.shape).double()

    def train(self, job: Job) -> Rows:
        """Train from the checkpoint, if there is a valid one, to the end."""
        path, rounds = job.scratch / f"{self.unit.name}.safetensors", self.bench.settings["rounds"]
        identity = self.bench.identity(self.unit)
        state, record = run_state.restore(
            path, self.problem, self.algorithm, identity, job.report, Record
        )
        try:
            for result in self._results(rounds, state, record):
                record.rounds.append(self._round(result))
                state = result.state
                run_state.store(path, state, record, identity)
                last = record.rounds[-1]
                job.report(
                    f"{self.unit.name}: round {state.round_index}/{rounds}: validation loss"
                    f" {last['validation_loss']:.4f}, accuracy {last['validation_accuracy']:.3f}"
                )
                job.saved()
        except Diverged as failure:
            record.failure = {"failure": str(failure), "failed_round": failure.round_index}
            run_state.store(path, state, record, identity)
            job.report(f"FAILED: {self.unit.name}: {failure}")
        return self._rows(record, state, identity)

    def _results(
        self, rounds: int, state: engine.RunState, record: Record
    ) -> Iterator[engine.RoundResult]:
        if record.failure:
            return iter(())
        return engine.run(self.problem, self.algorithm, rounds, state)

    def _scored(self, params: Params, rows: Any) -> Scored:
        bench = self.bench
        return self.task.score(params, rows, bench.data.allowed, bench.training["eval_batch_size"])

    def _round(self, result: engine.RoundResult) -> dict[str, Any]:
        moved = drift(
            result.updates, self.problem.weights, result.mean_update, result.previous,
            result.state.params,
        )  # fmt: skip
        scored = self._scored(result.state.params, self.bench.validation)
        losses = [float(outcome.losses.mean()) for outcome in result.outcomes]
        gains = [
            norm({name: t for name, t in update.items() if name.endswith(GAINS)})
            for update in result.updates
            if any(name.endswith(GAINS) for name in update)
        ]
        return {
            **self.unit._asdict(),
            "round": result.state.round_index,
            "train_loss": math.fsum(losses) / len(losses),
            "validation_loss": result.val_loss,
            "validation_accuracy": float(scored.correct.mean()),
            "client_drift_mean": math.fsum(moved.client_drift) / len(moved.client_drift),
            "update_dispersion": moved.update_dispersion,
            "gain_drift": math.fsum(gains) / len(gains) if gains else None,
            **self._regime(result.state.params),
        }

    def _regime(self, params: Params) -> dict[str, float | None]:
        """Return rho, c2 and eta, the largest over layers and probe sequences."""
        model = self.measured
        state = {name: tensor.double().cpu() for name, tensor in params.items()}
        model.load_state_dict(state, strict=not self.bench.shape.tied_head)
        found = []
        with torch.no_grad():
            entering = inputs(model.blocks, model.embedding(self.bench.probe))
            for block, residual in zip(model.blocks, entering, strict=True):
                if isinstance(block.layer, Sessa):
                    routed = routing(block.layer, block.norm(residual))
                    if routed.feedback is not None and routed.gains is not None:
                        found.append(gain_and_c2(routed.feedback, routed.gains))
        names = ("gain_largest", "c2", "eta")
        if not found:
            return dict.fromkeys(names)
        largest = (max(float(part.max()) for part in parts) for parts in zip(*found, strict=True))
        return dict(zip(names, largest, strict=True))

    def _rows(self, record: Record, state: engine.RunState, identity: Mapping[str, str]) -> Rows:
        unit, shape = self.unit._asdict(), self.bench.shape
        failed = record.failure is not None
        last = {} if failed else record.rounds[-1]
        scored = None if failed else self._scored(state.params, self.bench.test)
        row = {
            **unit,
            "status": "failed" if failed else "completed",
            **(record.failure or {"failure": None, "failed_round": None}),
            "rounds": len(record.rounds),
            "d_model": shape.d_model,
            "d_state": shape.d_state,
            "parameters": parameters(shape),
            "validation_loss": last.get("validation_loss", math.nan),
            "validation_accuracy": last.get("validation_accuracy", math.nan),
            "test_loss": math.nan if scored is None else float(np.mean(scored.loss)),
            "test_accuracy": math.nan if scored is None else float(np.mean(scored.correct)),
            **identity,
        }
        return {
            FEDERATED_RUNS.name: [row],
            FEDERATED_ROUNDS.name: record.rounds,
            FEDERATED_CLIENTS.name: holding_rows(self.held, unit),
        }
