"""Stage ``bounds``: all teachers, learners and evaluations -> tables and figures of the bounds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis import bound_fits, bound_tables
from fedscan.analysis.bound_figures import figures
from fedscan.analysis.bound_paper import paper_numbers
from fedscan.analysis.bound_tables import Evaluated, with_utilization
from fedscan.analysis.numbers import Number, numbers_table
from fedscan.analysis.numbers_text import bounds_summary
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.number_files import write_numbers
from fedscan.stages.paper_tables import paper_tables

PAPER_TABLES = ("table1", "table17", "table18", "table19", "table20", "table21", "table22")


def run(settings: Mapping[str, Any], results: str, folder: str, report: Log) -> None:
    """Write the numbers beside the paper's, and the figures.

    Args:
        settings: ``shapes``, the list of (D, N).
        results: folder of all results.
        folder: receives numbers (Parquet, CSV, text), a summary, and a PNG and SVG per figure.
        report: the job's log.
    """
    shapes = [tuple(shape) for shape in settings["shapes"]]
    teachers = _collect(results, "teachers", "teachers", shapes)
    learners = _collect(results, "learners", "learners", shapes)
    found = _evaluated(results, shapes)
    stacks = parquet.read_frame(f"{results}/stacks/stacks.parquet", "stacks")
    report(f"{len(found.points)} points, {len(found.gradients)} sequence gradients")
    numbers: list[Number] = [
        *bound_tables.table1(found),
        *bound_tables.table17(found),
        *bound_tables.table18(found),
        *bound_tables.table19(found),
        *bound_fits.dimensions(found.points),
        *bound_tables.table21(learners),
        *bound_fits.attribution(found.points),
        *bound_fits.growth(found.points),
        *bound_tables.bank(teachers),
        *bound_tables.stack_numbers(stacks),
    ]
    table = numbers_table(numbers, paper_numbers(paper_tables(PAPER_TABLES)))
    provenance = {"settings": settings, "versions": versions()}
    write_numbers(table, folder, provenance)
    atomic.write_text(f"{folder}/summary.txt", bounds_summary(table))
    for name, draw in figures(found, learners, teachers, table).items():
        save_figure(draw, f"{folder}/{name}")


def _collect(results: str, stage: str, table: str, shapes: list[tuple[int, int]]) -> pd.DataFrame:
    """Join the tables of all (D, N), with the keys of their paths as columns."""
    frames = []
    for d_input, d_state in shapes:
        path = Path(results, stage, f"D={d_input}", f"N={d_state}", f"{table}.parquet")
        frame = parquet.read(path, table).to_pandas()
        frames.append(frame.assign(d_input=d_input, d_state=d_state))
    return pd.concat(frames, ignore_index=True)


def _evaluated(results: str, shapes: list[tuple[int, int]]) -> Evaluated:
    points, gradients, curvature, trajectories = (
        _collect(results, "evaluation", table, shapes)
        for table in ("points", "gradients", "curvature", "trajectories")
    )
    key = [*bound_tables.CELL, "seed", "checkpoint", "update"]
    bounds = points[[*key, "L", "L_tight", "L_step"]]
    return Evaluated(
        bound_fits.with_hessians(points, curvature),
        with_utilization(points, gradients),
        curvature.merge(bounds, on=key, how="left", validate="m:1"),
        trajectories,
    )
