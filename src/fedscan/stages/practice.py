"""Stage ``practice``: per-round quantities of all runs -> which of them orders the algorithms."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan import grid
from fedscan.analysis import practice
from fedscan.analysis.numbers import numbers_table
from fedscan.analysis.practice_figures import figures
from fedscan.analysis.selection import CONFIGURATION
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.stages.collect import RUN_KEY, ended
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.number_files import write_numbers

PARTS = ("rounds", "clients", "mixers", "heads")


def run(settings: Mapping[str, Any], results: str, compared: str, folder: str, report: Log) -> None:
    """Write every run's quantities, how well each orders the algorithms, and two figures.

    Args:
        settings: sections ``studies`` and ``analysis``.
        results: folder of all results.
        compared: folder written by stage ``compare``.
        folder: receives quantities, numbers (Parquet, CSV, text) and the figures.
        report: the job's log.
    """
    provenance = {"settings": settings, "versions": versions()}
    runs = parquet.read_frame(f"{compared}/all_runs.parquet", "all_runs")
    comparison = parquet.read_frame(f"{compared}/comparison.parquet", "comparison")
    found = _quantities(grid.runs(settings["studies"]), f"{results}/federated")
    found = found.merge(runs[RUN_KEY], on=RUN_KEY, validate="1:1")
    parquet.write(f"{folder}/quantities.parquet", "quantities", found, provenance)
    analysis = settings["analysis"]
    selected = comparison[comparison["study"] == analysis["grid"]]
    selected = selected[[*CONFIGURATION, "algorithm", "value"]]
    chosen = runs[runs["status"] == "completed"].merge(selected, on=list(selected.columns))
    joined = practice.outcomes(chosen, found, analysis["expectation_between"])
    numbers = list(practice.ordering(practice.rank_correlations(joined)))
    report(f"{len(found)} runs, {len(joined)} of them selected by the grid")
    table = numbers_table(numbers, {})
    write_numbers(table, folder, provenance)
    for name, draw in figures(table, joined).items():
        save_figure(draw, f"{folder}/{name}")


def _quantities(runs: list[grid.Run], federated: str) -> pd.DataFrame:
    """Summarise job by job: all heads of all rounds of all runs would not fit into memory."""
    frames = []
    for path, members in ended(runs, federated).items():
        files = [Path(federated, path, f"{name}.parquet") for name in PARTS]
        tables = [parquet.read_frame(f, name) for f, name in zip(files, PARTS, strict=True)]
        frame = practice.run_quantities(*tables)
        frames.append(frame.assign(**members[0].job._asdict()))
    return pd.concat(frames, ignore_index=True)
