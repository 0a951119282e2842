"""Stage ``sessa_diagnostics``: what reaches how far in initial, trained and constructed models."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedscan.experiments.sessa.inputs import TaskData, read_data, sequences
from fedscan.experiments.sessa.model_files import read_model
from fedscan.experiments.sessa.profiles import Profile, inputs, jacobian_norms, profiles, regime
from fedscan.experiments.sessa.selection import best_rate
from fedscan.experiments.sessa.tables import (
    DECAY,
    DIAGNOSED,
    DIAGNOSTIC_TABLES,
    JACOBIANS,
    REGIME,
    RUNS,
)
from fedscan.io import parquet
from fedscan.io.provenance import digest, versions
from fedscan.measure.decay import Decay, fit
from fedscan.models.sequence_model import SequenceModel, initialise
from fedscan.models.sequence_shape import SequenceShape
from fedscan.params.algebra import Params
from fedscan.pipeline.kept_rows import KeptRows, Rows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.machine import require_device
from fedscan.pipeline.stage import Job
from fedscan.problems.sequence_task import SequenceTask
from fedscan.seeds import derive, generator

# Gain of the constructed diffuse loop: a tail exponent of 0.4.
DIFFUSE_GAIN = 0.6
# Slack of a comparison with a bound, relative: sums of rounded numbers.
ROUNDING = 1e-9
LAWS = ("power", "power_log", "exponential", "inverse")


class Subject(NamedTuple):
    """One model that is looked at; the first two are columns of the same names."""

    weights: str
    seed: int
    lr: float | None
    params: Params | None


def run(job: Job) -> None:
    """Measure every model that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``task``, ``mixer``, ``width``, ``shape``, ``lrs``, ``seeds``, ``sequences``,
            ``lags``, ``eval_batch_size``, ``precision``, ``device``, ``threads``,
            ``rerun_on_code_change`` and the ``code`` fingerprint; inputs ``examples`` and ``runs``,
            the table of trained models. Its folder receives a Parquet file for each of
            ``DIAGNOSTIC_TABLES``.

    Raises:
        ValueError: if an input is damaged or the configured device is not there.
    """
    settings = job.settings
    require_device(settings["device"], "sessa.training")
    torch.set_num_threads(settings["threads"])
    shape = SequenceShape(*settings["shape"])
    data = read_data(job.inputs["examples"], shape)
    runs = parquet.read(job.inputs["runs"], RUNS).to_pylist()
    kept = KeptRows(
        job.folder, DIAGNOSTIC_TABLES, ("weights", "seed"), settings["rerun_on_code_change"],
        job.report, progress=job.scratch,
    )  # fmt: skip
    units = []
    for subject, made in _subjects(settings, shape, runs, job.inputs["runs"].parent):
        unit = (subject.weights, subject.seed)
        units.append(unit)
        identity = {
            "config_hash": digest([
                made, list(shape), data.sha256,
                only(settings, "task", "sequences", "lags", "eval_batch_size", "precision"),
            ]),
            "code_hash": settings["code"],
        }  # fmt: skip
        if kept.get(unit, identity) is None:
            kept.put(unit, _measured(subject, shape, data, settings, identity))
            job.report(f"{subject.weights} model of seed {subject.seed}")
            job.saved()
    provenance = {"settings": without(settings, "rerun_on_code_change"), "versions": versions()}
    kept.write(units, provenance)


def _subjects(
    settings: Mapping[str, Any],
    shape: SequenceShape,
    runs: list[dict[str, Any]],
    folder: Path,
) -> Iterator[tuple[Subject, list[Any]]]:
    """Yield every model, and what it was made from."""
    own = [row for row in runs if row["width"] == settings["width"]]
    rate = best_rate(own)
    chosen = {row["seed"]: row for row in own if row["lr"] == rate}
    for seed in settings["seeds"]:
        root = derive(seed, "initial model")
        first = dict(initialise(shape, root).named_parameters())
        initial = {name: tensor.detach() for name, tensor in first.items()}
        yield Subject("initial", seed, None, initial), ["initial", seed]
        if (made := diffuse(shape, initial)) is not None:
            yield Subject("diffuse", seed, None, made), ["diffuse", seed, DIFFUSE_GAIN]
        best = chosen.get(seed)
        if best is None:
            yield Subject("trained", seed, None, None), ["trained", seed, None]
            continue
        file = folder / best["model_file"]
        params = read_model(file, shape)
        yield Subject("trained", seed, best["lr"], params), ["trained", best["model_sha256"]]


def diffuse(shape: SequenceShape, initial: Params) -> Params | None:
    """Return a model whose routing is uniform and whose gain is one number.

    Args:
        shape: of the model.
        initial: its initial values.

    Returns:
        Queries and keys are zero, so that all weights are equal; None for a model without them.
    """
    if not any(".q_proj." in name for name in initial):
        return None
    found = {}
    for name, tensor in initial.items():
        part = name.split(".")[-2]
        zero = part in ("q_proj", "k_proj", "feedback_proj", "gain_proj")
        found[name] = torch.zeros_like(tensor) if zero else tensor.clone()
        if name.endswith("gain_bias"):
            found[name].fill_(math.atanh(DIFFUSE_GAIN / shape.gain_max))
    return found


def without_gain(params: Params) -> Params:
    """Return a model whose gains are all zero.

    Args:
        params: of a model with the loop.

    Returns:
        The same with w_gamma = 0 and b_gamma = 0.
    """
    off = (".gain_proj.weight", ".gain_bias")
    return {n: torch.zeros_like(t) if n.endswith(off) else t for n, t in params.items()}


def _measured(
    subject: Subject,
    shape: SequenceShape,
    data: TaskData,
    settings: Mapping[str, Any],
    identity: Mapping[str, str],
) -> Rows:
    failure = None if subject.params is not None else "no learning rate has all its seeds completed"
    facts: dict[str, Any] = dict.fromkeys(("accuracy", "accuracy_no_gain", "loss", "loss_no_gain"))
    profiled: list[dict[str, Any]] = []
    decays: list[dict[str, Any]] = []
    regimes: list[dict[str, Any]] = []
    if subject.params is not None:
        facts |= _scores(subject.params, shape, data, settings)
        where = {"weights": subject.weights, "seed": subject.seed}
        ids = _common(data.parts["test", 1], settings["sequences"])
        for layer, profile, quantities in _looked_at(shape, subject.params, ids):
            place = {**where, "layer": layer}
            regimes += [{**place, "quantity": n, "value": v} for n, v in quantities]
            if profile is not None:
                values = profile.values[:, 1 : settings["lags"] + 1]
                lags = np.arange(1, values.shape[1] + 1)
                place |= {"kind": profile.kind, "head": profile.head}
                profiled += _profile_rows(place, profile, lags)
                stream = generator(subject.seed, "decay intervals", subject.weights)
                decays.append({**place, **_decay_row(fit(lags, values.numpy(), stream))})
    row = {
        "weights": subject.weights,
        "seed": subject.seed,
        "lr": subject.lr,
        "status": "completed" if failure is None else "failed",
        "failure": failure,
        **facts,
        **identity,
    }
    return {
        DIAGNOSED.name: [row],
        JACOBIANS.name: profiled,
        DECAY.name: decays,
        REGIME.name: regimes,
    }


def _scores(
    params: Params, shape: SequenceShape, data: TaskData, settings: Mapping[str, Any]
) -> dict[str, float]:
    task = SequenceTask(SequenceModel(shape), settings["precision"], settings["device"])
    test, found = sequences(data.parts["test", 1]), {}
    models = {"": params}
    if any(name.endswith(".gain_bias") for name in params):
        models["_no_gain"] = without_gain(params)
    for ending, model in models.items():
        scored = task.score(task.place(model), test, data.allowed, settings["eval_batch_size"])
        found[f"accuracy{ending}"] = float(scored.correct.mean())
        found[f"loss{ending}"] = float(scored.loss.mean())
    return found


def _common(rows: list[Mapping[str, Any]], count: int) -> Tensor:
    """Return the first sequences, cut on the right to one length."""
    chosen = rows[:count]
    length = min(row["length"] for row in chosen)
    return torch.tensor([row["tokens"][:length] for row in chosen])


def _looked_at(
    shape: SequenceShape, params: Params, ids: Tensor
) -> Iterator[tuple[int, Profile | None, list[tuple[str, float]]]]:
    """Yield layer, a profile, and quantities of the layer's regime."""
    model = SequenceModel(shape).double()
    model.load_state_dict({n: t.double() for n, t in params.items()}, strict=not shape.tied_head)
    embedded = model.embedding(ids).detach()
    entering = inputs(model.blocks, embedded)
    for layer, (block, residual) in enumerate(zip(model.blocks, entering, strict=True)):
        yield layer, None, list(regime(block, residual))
        with torch.no_grad():
            hidden = block.norm(residual)
            found = list(profiles(block.layer, hidden))
        for profile in found:
            yield layer, profile, []
        yield layer, Profile("block", -1, jacobian_norms(block, residual)), []
    stack: Callable[[Tensor], Tensor] = torch.nn.Sequential(*model.blocks)
    yield shape.depth, Profile("stack", -1, jacobian_norms(stack, embedded)), []


def _profile_rows(
    place: Mapping[str, Any], profile: Profile, lags: np.ndarray
) -> Iterator[dict[str, Any]]:
    values = profile.values.numpy()
    bounds = None if profile.bound is None else profile.bound.numpy()
    for lag in lags.tolist():
        own = values[:, lag]
        with np.errstate(divide="ignore"):  # a weight that underflowed is zero
            mean = float(np.exp(np.log(own).mean()))
        limit = None if bounds is None else float(bounds[:, lag].min())
        broken = bounds is not None and bool((own > bounds[:, lag] * (1 + ROUNDING)).any())
        yield {
            **place,
            "lag": lag,
            "norm": mean,
            "smallest": float(own.min()),
            "largest": float(own.max()),
            "bound": limit,
            "violated": broken,
        }


def _decay_row(found: Decay) -> dict[str, Any]:
    aic = found.aic or {}
    return {
        "decay_class": found.law,
        **{name: getattr(found, name) for name in ("beta", "beta_low", "beta_high", "rate")},
        **{f"aic_{name}": aic.get(name) for name in LAWS},
    }
