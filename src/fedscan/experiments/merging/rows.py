"""Rows of merges: accuracies, displacement, and what the gradient at the base says of it."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fedscan.experiments.merging.bench import Bench, Specialist
from fedscan.experiments.merging.grid import Merge, group_name
from fedscan.experiments.merging.merge_tables import DISPLACEMENTS, MERGES
from fedscan.operators import OPERATORS
from fedscan.operators.direction import Direction, merge
from fedscan.operators.geometry import alignment, gram, mean_cosines, sum_ratio
from fedscan.params.algebra import Params, add, multiply, zeros_like
from fedscan.pipeline.kept_rows import Rows
from fedscan.pipeline.model_files import TensorFile


class HeldOut(NamedTuple):
    """f and its gradient at theta_0; f is the mean loss of the tasks on held-out examples."""

    loss: float
    gradient: Params


class Group:
    """The specialists that are merged together; opened and measured when first needed."""

    def __init__(self, bench: Bench, mu: float, epoch: int, members: Sequence[Specialist]) -> None:
        """Bind ``members``, in the order of the tasks."""
        self.bench, self.mu, self.epoch, self.members = bench, mu, epoch, members
        self.name = group_name(mu, epoch)
        self.failure = next((m.failure for m in members if m.failure is not None), None)
        self.direction = functools.lru_cache(maxsize=1)(self._direction)

    @functools.cached_property
    def experts(self) -> list[TensorFile]:
        """The specialists' files."""
        return [TensorFile(member.path) for member in self.members if member.path is not None]

    @functools.cached_property
    def products(self) -> torch.Tensor:
        """Inner products of the task vectors, (M, M) float64."""
        return gram(self.bench.base, self.experts)

    @property
    def norms(self) -> list[float]:
        """||T_m|| in the order of the tasks."""
        return self.products.diagonal().sqrt().tolist()

    def _direction(self, operator: str, density: float | None) -> Direction:
        """Prepare an operator; all its scales share the preparation."""
        own = {} if density is None else {"density": density}
        return OPERATORS[operator](self.bench.base, self.experts, **own)


def held_out(bench: Bench) -> HeldOut:
    """Return f and its gradient at the base.

    Args:
        bench: base and evaluation sets, whose first examples are the held-out batch.

    Returns:
        Mean over tasks of the mean cross-entropy per label token, and its gradient.
    """
    params = bench.classifier.place(bench.base)
    total, gradient = 0.0, zeros_like(params)
    for task, found in bench.tasks.items():
        for rows, share in _chunks(bench, task):
            loss, part = bench.classifier.gradient(params, found.examples, rows)
            total += share * float(loss)
            gradient = add(gradient, part, share)
    count = len(bench.tasks)
    return HeldOut(total / count, multiply(gradient, 1 / count))


def task_vector_rows(group: Group, start: HeldOut) -> list[dict[str, Any]]:
    """Return one row per task vector of a group.

    Args:
        group: specialists.
        start: gradient at the base.

    Returns:
        Rows of table ``task_vectors`` without model and hashes.
    """
    numbers = ("norm", "mean_cosine", "first_order", "alignment", "sum_ratio")
    rows = []
    for index, task in enumerate(group.bench.tasks):
        row = {"mu": group.mu, "epoch": group.epoch, "task": task, "failure": group.failure}
        if group.failure is not None:
            rows.append({**row, "status": "failed", **dict.fromkeys(numbers, math.nan)})
            continue
        found = alignment(group.bench.base, group.experts[index], start.gradient)
        values = (
            found.norm,
            mean_cosines(group.products)[index],
            found.first_order,
            found.cosine,
            sum_ratio(group.products),
        )
        rows.append({**row, "status": "completed", **dict(zip(numbers, values, strict=True))})
    return rows


def merge_rows(group: Group, one: Merge, start: HeldOut) -> Rows:
    """Make a merge and return its rows.

    Args:
        group: specialists.
        one: operator, scale and density.
        start: f and its gradient at the base.

    Returns:
        Rows of tables ``merges`` and ``displacements`` without model and hashes.
    """
    params = None
    if group.failure is None:
        params = merge(group.bench.base, group.direction(one.operator, one.density), one.scale)
    accuracies = group.bench.accuracies(params, group.failure)
    return {
        MERGES.name: [{**one._asdict(), **row} for row in accuracies],
        DISPLACEMENTS.name: [{**one._asdict(), **_displacement(group, params, start)}],
    }


def _displacement(group: Group, params: Params | None, start: HeldOut) -> dict[str, Any]:
    row = {"status": "completed", "failure": None, "base_loss": start.loss}
    if params is None:
        names = ("displacement", "contained", "first_order", "alignment", "loss", "curvature")
        bounds = {"radius": math.nan, "mean_norm": math.nan}
        failed = {"status": "failed", "failure": group.failure}
        return row | failed | bounds | dict.fromkeys(names)
    norms = group.norms
    found = alignment(group.bench.base, params, start.gradient)
    loss = _loss(group.bench, params)
    rest = loss - start.loss - found.first_order
    return row | {
        "displacement": found.norm,
        "radius": max(norms),
        "mean_norm": sum(norms) / len(norms),
        "contained": found.norm <= max(norms),
        "first_order": found.first_order,
        "alignment": found.cosine,
        "loss": loss,
        "curvature": 2 * rest / found.norm**2 if found.norm > 0 else None,
    }


@torch.no_grad()
def _loss(bench: Bench, params: Params) -> float:
    placed, total = bench.classifier.place(params), 0.0
    for task, found in bench.tasks.items():
        for rows, share in _chunks(bench, task):
            total += share * float(bench.classifier.loss(placed, found.examples, rows))
    return total / len(bench.tasks)


def _chunks(bench: Bench, task: str) -> list[tuple[list[int], float]]:
    """Return batches of a task's held-out examples, with their share of the label tokens."""
    examples = bench.tasks[task].examples
    count = min(bench.settings["gradient_examples"], len(examples.targets))
    size = bench.settings["evaluation_batch_size"]
    tokens = [len(examples.labels[int(target)]) for target in examples.targets[:count]]
    parts = [list(range(first, min(first + size, count))) for first in range(0, count, size)]
    return [(rows, sum(tokens[row] for row in rows) / sum(tokens)) for rows in parts]
