"""From configuration to the federated runs on teachers' datasets. No torch: the Snakefile reads it.

A cell is one dataset (D, N, rho); all runs of a cell share a job. Runs that studies share are one.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedscan.labels import axis_label, combinations


class Cell(NamedTuple):
    """One dataset."""

    d_input: int
    d_state: int
    rho: float


class StudentRun(NamedTuple):
    """One federated run on a cell's dataset; fields are columns of the same names."""

    clients: int
    local_steps: int
    partition: str
    algorithm: str
    value: str
    seed: int
    hyperparameters: tuple[tuple[str, Any], ...]
    studies: tuple[str, ...]

    @property
    def name(self) -> str:
        """File name of the run's checkpoint."""
        axes: tuple[int | str, ...] = self[:6]
        named = zip(self._fields, axes, strict=False)
        return ",".join(f"{key}={axis_label(value)}" for key, value in named)


def cells(synthetic: Mapping[str, Any], which: str) -> list[Cell]:
    """Return datasets of a study.

    Args:
        synthetic: section ``synthetic``.
        which: 'all'; 'core': all rho at the core's (D, N), and all (D, N) at its rho.

    Returns:
        Cells in grid order.
    """
    core = synthetic["federated"]["core"]
    found = [
        Cell(*axes)
        for axes in itertools.product(synthetic["d_input"], synthetic["d_state"], synthetic["rhos"])
    ]
    if which == "all":
        return found
    shape = (core["d_input"], core["d_state"])
    return [cell for cell in found if cell[:2] == shape or cell.rho == core["rho"]]


def student_runs(synthetic: Mapping[str, Any]) -> dict[Cell, list[StudentRun]]:
    """Return the runs of every cell, each once, in canonical order.

    Args:
        synthetic: section ``synthetic``.

    Returns:
        Cell -> runs.
    """
    federated = synthetic["federated"]
    found: dict[Cell, dict[tuple[Any, ...], tuple[Any, list[str]]]] = {}
    for name, study in federated["studies"].items():
        for cell, (key, hyperparameters) in itertools.product(
            cells(synthetic, study["cells"]), _variations(study, federated["seeds"])
        ):
            entry = found.setdefault(cell, {}).setdefault(key, (hyperparameters, []))
            entry[1].append(name)
    return {
        cell: [
            StudentRun._make((*key, hyperparameters, tuple(names)))
            for key, (hyperparameters, names) in sorted(found[cell].items(), key=lambda kv: kv[0])
        ]
        for cell in sorted(found)
    }


def _variations(
    study: Mapping[str, Any], seeds: list[int]
) -> list[tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]]:
    rows = []
    for algorithm in study["algorithms"]:
        for value, pairs in combinations(study["hyperparameters"][algorithm] or {}):
            for clients, steps, partition, seed in itertools.product(
                study["clients"], study["local_steps"], study["partitions"], seeds
            ):
                rows.append(((clients, steps, partition, algorithm, value, seed), pairs))
    return rows


def cell_path(cell: Cell) -> str:
    """Return the cell's folder below results/students, in hive style.

    Args:
        cell: dataset.

    Returns:
        ``D=8/N=8/rho=0.9``.
    """
    d, n, rho = (axis_label(value) for value in cell)
    return f"D={d}/N={n}/rho={rho}"
