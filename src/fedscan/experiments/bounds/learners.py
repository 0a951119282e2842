"""Stage ``learners``: layers trained centrally on the datasets of one (D, N), resumable."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedscan.experiments.bounds.tables import CHECKPOINTS, LEARNERS
from fedscan.experiments.teachers.datasets import Dataset, read_datasets
from fedscan.io import checkpoints
from fedscan.io.provenance import digest, versions
from fedscan.labels import label
from fedscan.measure.perplexity import perplexity
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.denormals import flushed_denormals
from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.models.selective_ssm.stability import certify
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.stage import Job
from fedscan.pipeline.timer import Timer
from fedscan.problems.learner import epoch_batches, initial_params

TABLES = (LEARNERS, CHECKPOINTS)
UNIT = ("rho", "seed")


@flushed_denormals()
def run(job: Job) -> None:
    """Train every learner that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``d_input``, ``d_state``, ``sequence_length``, section ``learners``,
            ``rerun_on_code_change`` and the ``code`` fingerprint; input ``teachers``, folder
            written by stage ``teachers`` for the same (D, N). Its folder receives learners.parquet
            and checkpoints.parquet.
    """
    settings = job.settings
    shape = Shape(settings["d_input"], settings["d_state"])
    datasets = read_datasets(job.inputs["teachers"], shape, settings["sequence_length"])
    code_counts = settings["rerun_on_code_change"]
    kept = KeptRows(job.folder, TABLES, UNIT, code_counts, job.report, one_row)
    wanted = [(data, seed) for data in datasets.values() for seed in settings["learners"]["seeds"]]
    timer = Timer(0)
    for index, (data, seed) in enumerate(wanted):
        identity, unit = _identity(settings, data, seed), (data.rho, seed)
        rows = kept.get(unit, identity)
        if rows is None:
            rows = _train(job, data, seed, identity)
            kept.put(unit, rows)
        left = timer.left(index + 1, len(wanted))
        job.report(f"rho {data.rho} seed {seed}: {_summary(rows)}, {left} left")
    provenance = {"settings": settings, "versions": versions()}
    kept.write([(data.rho, seed) for data, seed in wanted], provenance)
    shutil.rmtree(job.scratch, ignore_errors=True)


def one_row(rows: Rows) -> bool:
    """Keep a learner only with its one row."""
    return len(rows[LEARNERS.name]) == 1


def _identity(settings: Mapping[str, Any], data: Dataset, seed: int) -> dict[str, str]:
    learners = {
        k: v for k, v in settings["learners"].items() if k not in ("seeds", "bound_checkpoints")
    }
    relevant = [*data.shape, data.rho, seed, learners]
    return {
        "config_hash": digest(relevant),
        "data_sha256": data.digest,
        "code_hash": settings["code"],
    }


def _train(job: Job, data: Dataset, seed: int, identity: Mapping[str, str]) -> Rows:
    """Train one learner from its checkpoint, if there is a valid one, to the end."""
    learners = job.settings["learners"]
    path = job.scratch / f"rho={label(data.rho)},seed={seed}.safetensors"
    params, rows = _restore(path, identity)
    if not rows:
        params = initial_params(data.shape, data.margins, seed)
        rows = [_row(data, seed, 0, params, None)]
    every, failure = learners["checkpoint_every"], None
    while rows[-1]["update"] < learners["updates"]:
        update = rows[-1]["update"]
        batches = epoch_batches(len(data.train), learners["batch_size"], seed, update, every)
        phase = cpu.local_steps(
            params, data.train, batches, data.shape, data.margins, learners["lr"]
        )
        bad = np.flatnonzero(~np.isfinite(phase.losses + phase.direction_norms))
        if len(bad):
            failure = f"non-finite loss or gradient in update {update + 1 + int(bad[0])}"
            break
        params = phase.params
        rows.append(_row(data, seed, update + every, params, phase))
        checkpoints.save(path, {"params": params}, {"identity": dict(identity), "rows": rows})
        job.saved()
    learner = _learner_row(data, seed, rows, failure) | dict(identity)
    return {LEARNERS.name: [learner], CHECKPOINTS.name: rows}


def _restore(path: Path, identity: Mapping[str, str]) -> tuple[np.ndarray, list[dict[str, Any]]]:
    if not path.exists():
        return np.empty(0), []
    try:
        arrays, record = checkpoints.load(path)
    except ValueError:
        return np.empty(0), []
    if record["identity"] != dict(identity):
        return np.empty(0), []
    return arrays["params"].copy(), record["rows"]


def _row(
    data: Dataset, seed: int, update: int, params: np.ndarray, phase: cpu.Phase | None
) -> dict[str, Any]:
    found = cpu.predict(params, data.test, data.shape)
    certificate = certify(blocks(params, data.shape), data.margins)
    nll = float(found.losses.mean())
    positions = data.test.shape[0] * (data.test.shape[1] - 1)
    start = cpu.predict(params, data.train, data.shape).losses if phase is None else phase.losses
    return {
        "rho": data.rho,
        "seed": seed,
        "update": update,
        "train_loss": float(np.mean(start)),
        "test_nll": nll,
        "test_ppl": perplexity(nll),
        "test_accuracy": float(found.hits.sum()) / positions,
        "projected": 0 if phase is None else int(phase.projected.sum()),
        "certified": bool(certificate.stable and (phase is None or phase.stable.all())),
        "gamma_hat": certificate.gamma_hat,
        "delta_hat": certificate.delta_hat,
        "rho_hat": certificate.rho_hat,
        "parameters": params.tolist(),
    }


def _learner_row(
    data: Dataset, seed: int, rows: list[dict[str, Any]], failure: str | None
) -> dict[str, Any]:
    last, uniform = rows[-1], float(np.log(data.shape.d_input))
    return {
        "rho": data.rho,
        "seed": seed,
        "status": "completed" if failure is None else "failed",
        "failure": failure,
        "updates": last["update"],
        "certified": all(row["certified"] for row in rows),
        "projected": sum(row["projected"] for row in rows),
        "test_nll": last["test_nll"],
        "teacher_nll": data.test_nll,
        "excess_nll": last["test_nll"] - data.test_nll,
        "gap_recovered": (uniform - last["test_nll"]) / (uniform - data.test_nll),
        **{name: last[name] for name in ("gamma_hat", "delta_hat", "rho_hat")},
    }


def _summary(rows: Rows) -> str:
    row = rows[LEARNERS.name][0]
    state = f"FAILED: {row['failure']}" if row["failure"] else f"{row['updates']} updates"
    return f"{state}, test NLL {row['test_nll']:.4f} (teacher {row['teacher_nll']:.4f})"
