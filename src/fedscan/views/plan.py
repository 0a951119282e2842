"""What a run would do and why, before anything is run."""

import csv
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedscan.experiments import whole
from fedscan.views.progress import mean_seconds


class Planned(NamedTuple):
    """Jobs of a rule that would run."""

    rule: str
    jobs: int
    reasons: dict[str, int]


def planned(config: Mapping[str, Any], files: Sequence[str], results: Path) -> list[Planned]:
    """Ask Snakemake what would run and why; run in the project's folder.

    Args:
        config: the whole configuration, as JSON-like data.
        files: configuration files after the default.
        results: folder of all results.

    Returns:
        Rules with jobs to run.

    Raises:
        ValueError: if Snakemake refuses; the message is its own.
    """
    configs = ["--configfile", *files] if files else []
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--summary", "--nolock", *configs],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ValueError("\n".join(lines[-8:]))
    return parse_summary(done.stdout, whole.files(config), results)


def parse_summary(
    text: str, files: Mapping[str, Mapping[str, Sequence[str]]], results: Path
) -> list[Planned]:
    """Read jobs and reasons from Snakemake's table of output files.

    Args:
        text: what ``snakemake --summary`` printed.
        files: result of ``whole.files``.
        results: folder of all results.

    Returns:
        Rules in the order of ``files``.
    """
    found: dict[str, dict[str, set[str]]] = {}
    folders = {rule: {Path(results, job) for job in jobs} for rule, jobs in files.items()}
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        if row["plan"] == "update pending":
            rule, path = row["rule"], Path(row["output_file"])
            known = folders.get(rule, set())
            folder = next((parent for parent in path.parents if parent in known), path.parent)
            found.setdefault(rule, {}).setdefault(str(folder), set()).add(row["status"])
    order = [*files, *found]
    return [
        Planned(rule, len(jobs), _counts(jobs.values()))
        for rule, jobs in sorted(found.items(), key=lambda item: order.index(item[0]))
    ]


def _counts(jobs: Iterable[set[str]]) -> dict[str, int]:
    """Count the jobs of each reason; a job whose input is made anew has status 'ok' itself."""
    words = {
        "missing": "output is missing",
        "ok": "an input is made anew",
        "updated input files": "an input is made anew",
        "params changed": "its configuration or code changed",
    }
    counts: dict[str, int] = {}
    for statuses in jobs:
        for reason in sorted({words.get(status, status) for status in statuses}):
            counts[reason] = counts.get(reason, 0) + 1
    return counts


def rule_seconds(results: Path, rules: Sequence[str]) -> dict[str, float | None]:
    """Return the mean duration of each rule's finished jobs, None where none was measured.

    Args:
        results: folder of all results.
        rules: names.

    Returns:
        Rule -> seconds per job.
    """
    return {rule: mean_seconds(results, rule) for rule in rules}
