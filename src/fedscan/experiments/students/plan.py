"""Settings and files of federated learners. No torch: the Snakefile reads it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedscan.declared import algorithms, shown
from fedscan.experiments.students.grid import Cell, StudentRun, cell_path, student_runs
from fedscan.io.provenance import code_fingerprint, digest
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only

ROOM = "fedscan.experiments.students"


def code(algorithm: str) -> str:
    """Return the fingerprint of what trains an algorithm's runs, and of its bounds.

    Args:
        algorithm: registry name.

    Returns:
        16 hexadecimal digits.
    """
    choices = {"fedscan.federated.algorithms": algorithm}
    declared = algorithms()[algorithm]
    bounds = [declared.local_bound, declared.server_bound]
    return digest([code_fingerprint(f"{ROOM}.training", choices=choices), bounds])


def students(config: Config, cell: Cell, runs: Sequence[StudentRun]) -> dict[str, Any]:
    """Return the settings of stage ``students``: its code is in them, per algorithm.

    Args:
        config: the whole configuration.
        cell: dataset.
        runs: on it.

    Returns:
        What it uses.
    """
    synthetic = config["synthetic"]
    return {
        **cell._asdict(),
        "runs": [list(run) for run in runs],
        "codes": {name: code(name) for name in sorted({run.algorithm for run in runs})},
        "sequence_length": synthetic["sequence_length"],
        **only(synthetic["learners"], "lr", "batch_size"),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
        **only(synthetic["federated"], "rounds", "evaluate_every", "subset"),
    }


def student_tables(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``student_tables``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {
        "cells": [list(cell) for cell in student_runs(config["synthetic"])],
        "declared": shown(),
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    jobs = [f"students/{cell_path(cell)}" for cell in student_runs(config["synthetic"])]
    names = ("student_runs", "student_rounds")
    return {
        "students": {job: [f"{job}/{name}.parquet" for name in names] for job in jobs},
        "student_tables": {"student_tables": ["student_tables/numbers.parquet"]},
    }


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Runs, and the datasets they are on.
    """
    found = student_runs(config["synthetic"])
    return {
        "federated learners": sum(map(len, found.values())),
        "datasets with federated learners": len(found),
    }


def listing(config: Config) -> Iterator[tuple[str, ...]]:
    """List every run.

    Args:
        config: the whole configuration.

    Yields:
        Folder, name, studies.
    """
    for cell, runs in student_runs(config["synthetic"]).items():
        for run in runs:
            yield f"students/{cell_path(cell)}", run.name, ",".join(run.studies)


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the checks of federated learners.

    Args:
        config: the whole configuration.

    Returns:
        Rows of D, N, rho, runs; fingerprint per algorithm.
    """
    found = student_runs(config["synthetic"])
    algorithms = sorted({run.algorithm for runs in found.values() for run in runs})
    return {
        "students": [[*cell, len(runs)] for cell, runs in found.items()],
        "student_codes": {name: code(name) for name in algorithms},
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }
