"""Stage ``students``: all federated runs on one teacher's dataset, resumable after any kill."""

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedscan.experiments.students.bounds import Schedule, Theorem, reference, theorem
from fedscan.experiments.students.grid import StudentRun
from fedscan.experiments.students.rows import Bench, StudentRecord
from fedscan.experiments.students.tables import STUDENT_ROUNDS, STUDENT_RUNS
from fedscan.experiments.teachers.datasets import Dataset, read_datasets
from fedscan.federated import engine
from fedscan.federated.build import build
from fedscan.federated.local_phase import Diverged, local_phase
from fedscan.io.provenance import canonical_json, digest, versions
from fedscan.measure.total_variation import distances
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.denormals import flushed_denormals
from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.models.selective_ssm.stability import certify
from fedscan.params.algebra import Params
from fedscan.pipeline import run_state
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.keys import without
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import VIOLATIONS
from fedscan.pipeline.timer import Timer
from fedscan.pipeline.violations import Violations
from fedscan.problems.teacher_student import (
    TeacherStudentProblem,
    permutation_groups,
    phase_of,
    projected,
    shards,
    to_vector,
)
from fedscan.seeds import generator
from fedscan.theory.heterogeneity import weighted_tv

TABLES = (STUDENT_RUNS, STUDENT_ROUNDS, VIOLATIONS)
# Rounds between checkpoints: a run takes seconds.
CHECKPOINT_EVERY = 10


@flushed_denormals()
def run(job: Job) -> None:
    """Train every run that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``d_input``, ``d_state``, ``rho``, ``sequence_length``, ``runs`` (fields of
            ``StudentRun``), ``rounds``, ``evaluate_every``, ``subset``, ``lr``, ``batch_size``,
            ``rerun_on_code_change`` and ``codes``, the fingerprint per algorithm; input
            ``teachers``, folder written by stage ``teachers``. Its folder receives a Parquet file
            for each of ``TABLES``.
    """
    settings = job.settings
    shape = Shape(settings["d_input"], settings["d_state"])
    datasets = read_datasets(job.inputs["teachers"], shape, settings["sequence_length"])
    data = datasets[settings["rho"]]
    runs = [StudentRun(*row) for row in settings["runs"]]
    code_counts = settings["rerun_on_code_change"]
    kept = KeptRows(job.folder, TABLES, StudentRun._fields[:6], code_counts, job.report, sound)
    timer = Timer(0)
    for index, item in enumerate(runs):
        identity, unit = _identity(settings, data, item), item[:6]
        rows = kept.get(unit, identity) or _Run(settings, data, item, identity).train(job)
        # Which studies share a run is not part of what it is.
        (row,) = rows[STUDENT_RUNS.name]
        row = {**row, "studies": ",".join(item.studies)}
        kept.put(unit, {**rows, STUDENT_RUNS.name: [row]})
        left = timer.left(index + 1, len(runs))
        job.report(f"{index + 1}/{len(runs)} {item.name}: {row['status']}, {left} left")
    provenance = {"settings": without(settings, "runs"), "versions": versions()}
    kept.write([item[:6] for item in runs], provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


def sound(rows: Rows) -> bool:
    """Keep a run only with its one row, and without violations.

    Their reproductions are in a table of their own, which names no run.
    """
    found = rows[STUDENT_RUNS.name]
    return len(found) == 1 and not found[0]["violations"]


def _identity(settings: Mapping[str, Any], data: Dataset, item: StudentRun) -> dict[str, str]:
    names = ("rounds", "evaluate_every", "subset", "lr", "batch_size")
    relevant = [*data.shape, data.rho, *item[:6], {name: settings[name] for name in names}]
    return {
        "config_hash": digest(relevant),
        "data_sha256": data.digest,
        "code_hash": settings["codes"][item.algorithm],
    }


class _Run:
    """One run: its problem, algorithm and measurements."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        data: Dataset,
        item: StudentRun,
        identity: Mapping[str, str],
    ) -> None:
        self.data, self.item, self.identity = data, item, identity
        self.rounds, self.hyperparameters = settings["rounds"], dict(item.hyperparameters)
        parts = shards(data.train, item.clients, item.partition, item.seed)
        self.problem = TeacherStudentProblem(
            data.shape, data.margins, parts, data.test,
            item.local_steps, settings["batch_size"], settings["lr"], item.seed,
        )  # fmt: skip
        facts = {"permutation_groups": permutation_groups(data.shape)}
        algorithm = build(item.algorithm, self.hyperparameters, facts)
        self.algorithm = projected(algorithm, data.margins)
        self.phase = phase_of(self.algorithm)
        self.schedule = Schedule(
            item.algorithm, self.hyperparameters, self.rounds, item.local_steps,
            settings["lr"], settings["batch_size"], item.clients,
        )  # fmt: skip
        self.initial = to_vector(self.problem.initial_params()).astype(np.float64)
        ref = reference(self.initial, data.shape, data.rho, self.schedule)
        found = distances(parts, self.problem.weights, data.shape.d_input)
        self.squared_tv = {
            name: weighted_tv(self.problem.weights, value)
            for name, value in found._asdict().items()
        }
        chosen = generator(0, "gradient subset").permutation(len(data.train))[: settings["subset"]]
        subset = np.ascontiguousarray(data.train[np.sort(chosen)])
        every = settings["evaluate_every"]
        self.bench = Bench(self.problem, ref, data.rho, subset, self.squared_tv, every)

    def train(self, job: Job) -> Rows:
        """Train from the checkpoint, if there is a valid one, to the end."""
        path = job.scratch / f"{self.item.name}.safetensors"
        state, record = run_state.restore(
            path, self.problem, self.algorithm, self.identity, job.report, StudentRecord
        )
        try:
            if not record.rounds:
                self._broadcast(record, state, self.problem.evaluate(state.params))
            for result in self._results(state, record):
                self.bench.moved(record, state, result, self._mark(record, state.params))
                state = result.state
                self._broadcast(record, state, result.val_loss)
                if state.round_index % CHECKPOINT_EVERY == 0 or state.round_index == self.rounds:
                    run_state.store(path, state, record, self.identity)
                    job.saved()
        except Diverged as failure:
            record.fail(failure)
            run_state.store(path, state, record, self.identity)
            job.report(f"FAILED: {failure}")
        return self._rows(record, state)

    def _results(self, state: engine.RunState, record: StudentRecord) -> Any:
        if record.failure:
            return iter(())
        return engine.run(self.problem, self.algorithm, self.rounds, state, self.phase)

    def _broadcast(self, record: StudentRecord, state: engine.RunState, test_nll: float) -> None:
        stable = certify(blocks(to_vector(state.params), self.data.shape), self.data.margins)
        record.certified &= stable.stable
        self.bench.broadcast(record, state, test_nll, self._mark(record, state.params))

    def _mark(self, record: StudentRecord, params: Params) -> Any:
        """Return a comparison whose violations go to the record."""
        done = record.rounds[-1]["round"] if record.rounds else 0
        where = {**self.data.shape._asdict(), "rho": self.data.rho}
        subject = {**where, "run": self.item.name, "after_round": done}
        nothing = np.empty((1, 0), np.uint8)
        found = Violations(record.violations)
        return found.at(subject, to_vector(params).astype(float), nothing)

    def _rows(self, record: StudentRecord, state: engine.RunState) -> Rows:
        key = {name: getattr(self.item, name) for name in StudentRun._fields[:6]}
        loss = float(cpu.losses(self.initial, self.data.train, self.data.shape).mean())
        proven = theorem(self.bench.ref, loss, self.squared_tv["sequence"])
        squares = [row["gradient_squared"] for row in record.rounds[:-1]]
        moved = [row["displacement_max"] for row in record.rounds[:-1]]
        failure = record.failure or dict.fromkeys(("failure", "failed_round", "failed_client"))
        row = {
            **key,
            "hyperparameters": canonical_json(self.hyperparameters),
            "studies": ",".join(self.item.studies),
            "status": "failed" if record.failure else "completed",
            **failure,
            "rounds": state.round_index,
            "local_phase": "generic" if self.phase is local_phase else "compiled",
            "test_nll": record.rounds[-1]["test_nll"],
            "initial_loss": loss,
            "G_initial": self.bench.ref.G_initial,
            "radius": self.bench.ref.radius,
            **{f"tv_{name}": value for name, value in self.squared_tv.items()},
            **_theorem_columns(proven, float(np.mean(squares)) if squares else float("nan")),
            "contained": bool(np.all(np.array(moved, float) <= self.bench.ref.radius)),
            "certified": record.certified,
            "checks": record.checks,
            "violations": record.broken,
            **self.identity,
        }
        rounds = [key | found for found in record.rounds]
        return {
            STUDENT_RUNS.name: [row],
            STUDENT_ROUNDS.name: rounds,
            VIOLATIONS.name: record.violations,
        }


def _theorem_columns(proven: Theorem | None, left_side: float) -> dict[str, Any]:
    if proven is None:
        names = ("radius_local", "L_envelope", "G_envelope", "right_side", "step_condition")
        names += ("drift_condition", "term_optimisation", "term_variance")
        names += ("term_local_variance", "term_heterogeneity")
        nothing: dict[str, Any] = dict.fromkeys(names)
        return nothing | {"left_side": left_side, "theorem_applies": False}
    bound = proven.bound
    return {
        "radius_local": proven.radius_local,
        "L_envelope": proven.smoothness,
        "G_envelope": proven.gradient,
        "term_optimisation": float(bound.optimisation),
        "term_variance": float(bound.variance),
        "term_local_variance": float(bound.local_variance),
        "term_heterogeneity": float(bound.heterogeneity),
        "right_side": float(bound.bound),
        "left_side": left_side,
        "step_condition": float(bound.step_condition),
        "drift_condition": float(bound.drift_condition),
        "theorem_applies": bool(bound.applies),
    }
