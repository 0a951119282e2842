"""Federated learners in miniature."""

from pathlib import Path

import pandas as pd

from fedscan.experiments.students import training as students
from fedscan.experiments.students.grid import Cell, cell_path, student_runs
from fedscan.federated.algorithm import Step
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.params.algebra import multiply
from tests import jobs
from tests.federated.conformance import SMALL

# Every algorithm once, in miniature; the rates of a language model are too small to move a learner.
STEPS = {"fedprox": {"mu": 0.1}, "scaffold": {"correction_scale": 0.5, "control_bound": 1.0}}


ALL = {
    name: {key: [value] for key, value in {**values, **STEPS.get(name, {})}.items()}
    for name, values in SMALL.items()
}


FACTORS = ["fedavg", "fedprox"]


SYNTHETIC = {
    "d_input": [4],
    "d_state": [4],
    "rhos": [0.5, 0.95],
    "federated": {
        "rounds": 4,
        "seeds": [0],
        "evaluate_every": 2,
        "subset": 32,
        "core": {"d_input": 4, "d_state": 4, "rho": 0.5},
        "studies": {
            "base": {
                "cells": "all", "clients": [4], "local_steps": [16], "partitions": ["iid"],
                "algorithms": list(ALL), "hyperparameters": ALL,
            },
            "clients": {
                "cells": "core", "clients": [2, 4], "local_steps": [16], "partitions": ["iid"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
            "local_steps": {
                "cells": "core", "clients": [4], "local_steps": [1, 4], "partitions": ["iid"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
            "partition": {
                "cells": "core", "clients": [4], "local_steps": [16], "partitions": ["dominant"],
                "algorithms": FACTORS, "hyperparameters": ALL,
            },
        },
    },
}  # fmt: skip


CELLS = student_runs(SYNTHETIC)


def settings(cell, runs=None, **changes):
    federated = SYNTHETIC["federated"]
    return {
        **cell._asdict(),
        "runs": [list(run) for run in (CELLS[cell] if runs is None else runs)],
        "codes": dict.fromkeys(ALL, "c"),
        "sequence_length": 32,
        "lr": 0.05,
        "batch_size": 16,
        "rerun_on_code_change": True,
        **{name: federated[name] for name in ("rounds", "evaluate_every", "subset")},
    } | changes


def train(results, values, folder="students"):
    cell = Cell(values["d_input"], values["d_state"], values["rho"])
    path = cell_path(cell)
    jobs.run(students, values, f"{results}/{folder}/{path}",
             scratch=f"{results}/checkpoints/{path}",
             teachers=f"{results}/teachers/D=4/N=4")  # fmt: skip


def frame(results, cell, table, folder="students"):
    return pd.read_parquet(results / folder / cell_path(cell) / f"{table}.parquet")


CORE, OTHER = Cell(4, 4, 0.5), Cell(4, 4, 0.95)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*.parquet")}


def damped(*, mu):
    """A stranger's algorithm: its hyperparameter has FedProx's name, its local rule has not."""

    def local_gradient(grad_fn, params, batch, context):
        loss, gradient = grad_fn(params, batch)
        return Step(loss, multiply(gradient, 1 / (1 + mu)))

    return ALGORITHMS["fedavg"]()._replace(name="damped", local_gradient=local_gradient)


CORE, OTHER = Cell(4, 4, 0.5), Cell(4, 4, 0.95)
