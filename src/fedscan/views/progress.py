"""What is done, running, interrupted, failed and missing, and when the rest will be done."""

import importlib
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedscan.experiments import whole
from fedscan.experiments.registry import EXPERIMENTS

ROUND = re.compile(r"round (\d+)/(\d+): .*")


class RuleProgress(NamedTuple):
    """Jobs of one rule."""

    rule: str
    done: int
    total: int
    seconds: float | None  # mean duration of the jobs that were measured


class Interrupted(NamedTuple):
    """A job with a checkpoint: running, or stopped and resumable."""

    job: str
    last: str
    age: float  # seconds since its log was written


class Progress(NamedTuple):
    """The state of a results folder under one configuration."""

    rules: list[RuleProgress]
    counts: dict[str, dict[str, int]]  # what is counted -> done, failed, ..., missing
    in_progress: list[Interrupted]
    locked: bool
    seconds_left: float | None
    errors: list[tuple[str, str]]  # log file, its last line


def progress(config: Mapping[str, Any], results: Path) -> Progress:
    """Look at a results folder; nothing is written.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of all results.

    Returns:
        The state. Time left is that of the experiments which know theirs.

    Raises:
        ValueError: if a table is damaged.
    """
    rules = [
        RuleProgress(
            rule,
            sum(all((results / file).exists() for file in made) for made in jobs.values()),
            len(jobs),
            mean_seconds(results, rule),
        )
        for rule, jobs in whole.files(config).items()
    ]
    pace = {rule.rule: rule.seconds for rule in rules}
    counts, left = {}, []
    for experiment in EXPERIMENTS:
        if experiment.progress is not None and experiment.trained is not None:
            module = importlib.import_module(experiment.progress)
            found = counts[module.UNIT] = module.counts(config, results)
            left.append(module.seconds_left(config, found, pace[experiment.trained]))
    known = [seconds for seconds in left if seconds is not None]
    locks = results.resolve().parent / ".snakemake" / "locks"
    trained = [e.trained for e in EXPERIMENTS if e.trained is not None]
    return Progress(
        rules,
        counts,
        [job for rule in trained for job in _in_progress(results, rule)],
        locks.is_dir() and any(locks.iterdir()),
        sum(known) if len(known) == len(left) else None,
        _errors(results),
    )


def mean_seconds(results: Path, rule: str) -> float | None:
    """Return the mean duration of a rule's measured jobs.

    Args:
        results: folder of all results.
        rule: name of the rule.

    Returns:
        Seconds, None if no job was measured.
    """
    folder = results / "benchmarks"
    found = [*folder.glob(f"{rule}.tsv"), *folder.glob(f"{rule}/**/*.tsv")]
    seconds = []
    for file in found:
        table = pd.read_csv(file, sep="\t")
        if len(table) and "s" in table:
            seconds.append(float(table["s"].iloc[-1]))
    return sum(seconds) / len(seconds) if seconds else None


def _in_progress(results: Path, rule: str) -> list[Interrupted]:
    root = results / "checkpoints" / rule
    found = []
    for folder in sorted({file.parent for file in root.rglob("*.safetensors")}):
        job = str(folder.relative_to(root))
        log = results / "logs" / rule / f"{job}.log"
        lines = _lines(log)
        rounds = [line for line in lines if ROUND.search(line)]
        age = time.time() - log.stat().st_mtime if log.exists() else float("inf")
        found.append(Interrupted(job, rounds[-1] if rounds else "no round yet", age))
    return found


def _errors(results: Path) -> list[tuple[str, str]]:
    """Return the newest logs that end in an error, newest first."""
    found = []
    for log in (results / "logs").rglob("*.log"):
        lines = _lines(log)
        if any(line.startswith("Traceback") or "Traceback (most recent" in line for line in lines):
            found.append((log.stat().st_mtime, str(log), lines[-1]))
    return [(path, line) for _, path, line in sorted(found, reverse=True)]


def _lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    return [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line]
