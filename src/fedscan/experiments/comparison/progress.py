"""How far the training runs are."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.collect import collect, present
from fedscan.experiments.comparison.tables import RUNS

# What is counted.
UNIT = "training runs"


def counts(config: Mapping[str, Any], results: Path) -> dict[str, int]:
    """Count the training runs.

    Args:
        config: the whole configuration.
        results: folder of all results.

    Returns:
        Done, failed, of another configuration, missing.

    Raises:
        ValueError: if a table is damaged.
    """
    wanted = grid.runs(config["studies"])
    try:
        found = collect(wanted, results / "federated", RUNS)
    except ValueError:
        if any((results / "federated").rglob("runs.parquet")):
            raise
        return {"done": 0, "failed": 0, "of another configuration": 0, "missing": len(wanted)}
    current = present(wanted, found, config["training"], config["model"])
    kept = found[current]
    failed = int((kept["status"] == "failed").sum())
    return {
        "done": len(kept) - failed,
        "failed": failed,
        "of another configuration": int((~current).sum()),
        "missing": len(wanted) - len(found),
    }


def seconds_left(
    config: Mapping[str, Any], found: Mapping[str, int], seconds: float | None
) -> float | None:
    """Return the time for the runs that are not there, at the pace of those that are.

    Args:
        config: the whole configuration.
        found: result of ``counts``.
        seconds: mean duration of a job, None if none was measured.

    Returns:
        Seconds; None if unknown.
    """
    left = found["missing"] + found["of another configuration"]
    if not left:
        return 0.0
    if seconds is None:
        return None
    values = grid.runs(config["studies"])
    per_job = len(values) / len(grid.jobs(values))
    at_once = max((os.cpu_count() or 1) // config["training"]["threads"], 1)
    return seconds / per_job * left / at_once
