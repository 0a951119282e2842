"""What is done, running, interrupted, failed and missing, and when the rest will be done."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.collect import collect, present
from fedscan.views.files import expected_files

ROUND = re.compile(r"round (\d+)/(\d+): .*")


class RuleProgress(NamedTuple):
    """Jobs of one rule."""

    rule: str
    done: int
    total: int
    seconds: float | None  # mean duration of the jobs that were measured


class Interrupted(NamedTuple):
    """A training job with a checkpoint: running, or stopped and resumable."""

    job: str
    last: str
    age: float  # seconds since its log was written


class Progress(NamedTuple):
    """The state of a results folder under one configuration."""

    rules: list[RuleProgress]
    runs: dict[str, int]  # done, failed, of another configuration, missing
    in_progress: list[Interrupted]
    locked: bool
    seconds_left: float | None
    errors: list[tuple[str, str]]  # log file, its last line


def progress(config: Mapping[str, Any], results: str) -> Progress:
    """Look at a results folder; nothing is written.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of all results.

    Returns:
        The state. Time left is training time only: runs not there, at the pace of those measured.
    """
    files = expected_files(config, results)
    rules = [
        RuleProgress(
            rule,
            sum(all(file.exists() for file in tables) for tables in jobs.values()),
            len(jobs),
            mean_seconds(results, rule),
        )
        for rule, jobs in files.items()
    ]
    runs = _runs(config, results)
    locks = Path(results).resolve().parent / ".snakemake" / "locks"
    return Progress(
        rules,
        runs,
        _in_progress(results),
        locks.is_dir() and any(locks.iterdir()),
        _seconds_left(config, results, runs, rules),
        _errors(results),
    )


def mean_seconds(results: str, rule: str) -> float | None:
    """Return the mean duration of a rule's measured jobs.

    Args:
        results: folder of all results.
        rule: name of the rule.

    Returns:
        Seconds, None if no job was measured.
    """
    folder = Path(results, "benchmarks")
    found = [*folder.glob(f"{rule}.tsv"), *folder.glob(f"{rule}/**/*.tsv")]
    seconds = []
    for file in found:
        table = pd.read_csv(file, sep="\t")
        if len(table) and "s" in table:
            seconds.append(float(table["s"].iloc[-1]))
    return sum(seconds) / len(seconds) if seconds else None


def _runs(config: Mapping[str, Any], results: str) -> dict[str, int]:
    wanted = grid.runs(config["studies"])
    try:
        found = collect(wanted, f"{results}/federated", "runs")
    except ValueError:
        if any(Path(results, "federated").rglob("runs.parquet")):
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


def _in_progress(results: str) -> list[Interrupted]:
    root = Path(results, "checkpoints", "federated")
    found = []
    for folder in sorted({file.parent for file in root.rglob("*.safetensors")}):
        job = str(folder.relative_to(root))
        log = Path(results, "logs", "federated", f"{job}.log")
        lines = _lines(log)
        rounds = [line for line in lines if ROUND.search(line)]
        age = time.time() - log.stat().st_mtime if log.exists() else float("inf")
        found.append(Interrupted(job, rounds[-1] if rounds else "no round yet", age))
    return found


def _seconds_left(
    config: Mapping[str, Any], results: str, runs: Mapping[str, int], rules: Sequence[RuleProgress]
) -> float | None:
    """Return the time for the training runs that are not there, at the pace of those that are."""
    left = runs["missing"] + runs["of another configuration"]
    seconds = next(rule.seconds for rule in rules if rule.rule == "federated")
    if not left:
        return 0.0
    if seconds is None:
        return None
    values = grid.runs(config["studies"])
    per_job = len(values) / len(grid.jobs(values))
    at_once = max((os.cpu_count() or 1) // config["training"]["threads"], 1)
    return seconds / per_job * left / at_once


def _errors(results: str) -> list[tuple[str, str]]:
    """Return the newest logs that end in an error, newest first."""
    found = []
    for log in Path(results, "logs").rglob("*.log"):
        lines = _lines(log)
        if any(line.startswith("Traceback") or "Traceback (most recent" in line for line in lines):
            found.append((log.stat().st_mtime, str(log), lines[-1]))
    return [(path, line) for _, path, line in sorted(found, reverse=True)]


def _lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    return [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line]
