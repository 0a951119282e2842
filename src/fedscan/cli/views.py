"""What ``fedscan plan`` and ``fedscan status`` print."""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fedscan.experiments.registry import EXPERIMENTS, STAGES
from fedscan.pipeline.cost import Cost
from fedscan.pipeline.runner import on_device
from fedscan.views import plan as planning
from fedscan.views.progress import progress

SHOWN = 12
# Where the Snakefile, which `plan` asks, writes.
RESULTS = Path("results")


def plan(
    config: Mapping[str, Any], files: list[str], cores: int | None, measure: bool
) -> RenderableType:
    """Return what would run in the current folder, why, and its cost.

    Args:
        config: the whole configuration.
        files: configuration files after the default, for Snakemake.
        cores: CPU cores; None for all.
        measure: whether to measure step times and add them up.

    Returns:
        Something rich prints.

    Raises:
        ValueError: if Snakemake refuses, or the configured device is not there to be measured.
    """
    jobs = planning.planned(config, files, RESULTS)
    if not jobs:
        return "Nothing to do: everything is up to date."
    view = Table("rule", "jobs", "s per job, measured", "why", title="what would run")
    seconds = planning.rule_seconds(RESULTS, [job.rule for job in jobs])
    for job in jobs:
        pace = seconds[job.rule]
        why = ", ".join(f"{reason} ({count})" for reason, count in job.reasons.items())
        view.add_row(job.rule, str(job.jobs), "-" if pace is None else f"{pace:.1f}", why)
    parts: list[RenderableType] = [view]
    for experiment in EXPERIMENTS:
        if experiment.cost is None:
            continue
        module = importlib.import_module(experiment.cost)
        missing = module.missing(config, RESULTS)
        parts += [f"{count} {what} are to be done." for what, count in missing.items()]
        if any(missing.values()) and measure:
            device = STAGES[experiment.trained].device if experiment.trained else None
            with on_device(device, config, _say):
                found = module.cost(config, RESULTS, cores or os.cpu_count() or 1)
            parts.append(_cost(found))
    return Group(*parts)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _cost(found: Cost) -> RenderableType:
    title = f"measured on this {found.device}"
    view = Table("model", "local step", "validation sequence", title=title)
    for name, (step, sequence) in found.times.items():
        view.add_row(name, f"{1e3 * step:.1f} ms", f"{1e3 * sequence:.2f} ms")
    kind = "GPU" if found.device == "cuda" else "CPU"
    text = (
        f"Training: {found.device_hours:.2f} {kind} hours, about {found.wall_hours:.2f} hours of"
        f" waiting with as many jobs at once as fit.\nDisk: {_bytes(found.table_bytes)} of tables,"
        f" {_bytes(found.model_bytes)} of final models, {_bytes(found.checkpoint_bytes)} of"
        " checkpoints while jobs run.\nNot in the hours: the synthetic study and the tables; the"
        " third column above has what was measured of them."
    )
    return Group(view, text)


def status(config: Mapping[str, Any], results: Path) -> RenderableType:
    """Return what is done and what is not.

    Args:
        config: the whole configuration.
        results: folder of the results.

    Returns:
        Something rich prints.

    Raises:
        ValueError: if a table is damaged; it names the file.
    """
    found = progress(config, results)
    view = Table("rule", "done", "jobs", "s per job", title=f"jobs in {results}")
    for row in found.rules:
        pace = "-" if row.seconds is None else f"{row.seconds:.1f}"
        view.add_row(row.rule, str(row.done), str(row.total), pace)
    lines = [
        f"{unit}: " + ", ".join(f"{count} {what}" for what, count in counts.items())
        for unit, counts in found.counts.items()
    ]
    word = "running" if found.locked else "interrupted, the next start continues"
    for job in found.in_progress[:SHOWN]:
        lines.append(f"{word}: {job.job}: {job.last} ({job.age:.0f} s ago)")
    if len(found.in_progress) > SHOWN:
        lines.append(f"and {len(found.in_progress) - SHOWN} more jobs with checkpoints")
    if found.seconds_left is None:
        lines.append("time left: unknown until a job has finished")
    else:
        hours, rest = divmod(round(found.seconds_left), 3600)
        lines.append(f"training time left: {hours}:{rest // 60:02d}:{rest % 60:02d}")
    lines += [f"last error: {log}: {line}" for log, line in found.errors[:1]]
    if len(found.errors) > 1:
        lines.append(f"{len(found.errors)} logs end in an error")
    return Group(view, "\n".join(lines))


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
