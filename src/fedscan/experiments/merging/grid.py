"""From the section ``merging`` to jobs and merges. Imported by the Snakefile: no torch."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedscan.labels import label, value_label

EVALUATION = "evaluation"
# A base's checkpoint: the best model of the federated runs.
FEDERATED = "federated"


class Merge(NamedTuple):
    """One merged model of a base and a seed."""

    mu: float
    epoch: int
    operator: str
    scale: float
    density: float | None

    @property
    def name(self) -> str:
        """Canonical spelling."""
        return value_label({k: v for k, v in self._asdict().items() if v is not None})


def subset(seed: int | None) -> str:
    """Return the name of a choice of examples, a part of paths.

    Args:
        seed: seed of a training subset; None for the evaluation subset, which all runs share.

    Returns:
        ``evaluation`` or ``train_<seed>``.
    """
    return EVALUATION if seed is None else f"train_{seed}"


def group_name(mu: float, epoch: int) -> str:
    """Return the name of the specialists that are merged together.

    Args:
        mu: proximal coefficient.
        epoch: epochs of fine-tuning.

    Returns:
        ``epoch=4,mu=0``.
    """
    return value_label({"mu": mu, "epoch": epoch})


def specialist_name(seed: int, task: str, mu: float, epoch: int) -> str:
    """Return the canonical spelling of a specialist of a base.

    Args:
        seed: root seed of the fine-tuning.
        task: what it was trained on.
        mu: proximal coefficient.
        epoch: epochs of fine-tuning.

    Returns:
        ``epoch=4,mu=0,seed=0,task=trec``.
    """
    return value_label({"seed": seed, "task": task, "mu": mu, "epoch": epoch})


def model_file(mu: float, epoch: int) -> str:
    """Return where a specialist is kept below its job's folder.

    Args:
        mu: proximal coefficient.
        epoch: epochs of fine-tuning.

    Returns:
        ``models/mu=0/epoch=4.safetensors``.
    """
    return f"models/mu={label(mu)}/epoch={epoch}.safetensors"


def merges(
    mus: Sequence[float], epochs: Sequence[int], operators: Mapping[str, Mapping[str, Any]]
) -> list[Merge]:
    """Return every merge of one base and seed.

    Specialists without proximal term are merged by all operators, the others by averaging alone,
    as in the paper's Table 33.

    Args:
        mus: proximal coefficients.
        epochs: checkpoint epochs.
        operators: ``task_arithmetic`` {scales} and ``ties`` {scales, densities}.

    Returns:
        Merges in a fixed order.
    """
    arithmetic, ties = operators["task_arithmetic"], operators["ties"]
    found = []
    for mu, epoch in itertools.product(mus, epochs):
        found.append(Merge(mu, epoch, "average", 1.0, None))
        if mu:
            continue
        found += [
            Merge(mu, epoch, "task_arithmetic", scale, None) for scale in arithmetic["scales"]
        ]
        found += [
            Merge(mu, epoch, "ties", scale, density)
            for density in ties["densities"]
            for scale in ties["scales"]
        ]
    return found
