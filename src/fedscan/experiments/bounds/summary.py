"""Stage ``bounds``: all teachers, learners and evaluations -> tables and figures of the bounds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.analysis.numbers import Number, numbers_table
from fedscan.experiments.bounds import fits as bound_fits
from fedscan.experiments.bounds import numbers as bound_tables
from fedscan.experiments.bounds.evaluation_tables import (
    CURVATURE,
    GRADIENTS,
    POINTS,
    STACKS,
    TRAJECTORIES,
)
from fedscan.experiments.bounds.figures import figures
from fedscan.experiments.bounds.numbers import Evaluated, with_bounds, with_utilization
from fedscan.experiments.bounds.paper import paper_numbers
from fedscan.experiments.bounds.tables import LEARNERS
from fedscan.experiments.bounds.text import bounds_text
from fedscan.experiments.teachers.tables import TEACHERS
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.paper import published
from fedscan.pipeline.stage import Job

PAPER_TABLES = ("table1", "table17", "table18", "table19", "table20", "table21", "table22")


# Folder of the paper's CSV files.
PUBLISHED = "fedscan.experiments.bounds.published"


def run(job: Job) -> None:
    """Write the numbers beside the paper's, and the figures.

    Args:
        job: settings: ``shapes``, the list of (D, N). Its folder receives numbers (Parquet, CSV,
            text), a summary, and a PNG and SVG per figure.
    """
    settings, folder, results = job.settings, job.folder, job.results
    shapes = {
        f"D={d_input}/N={d_state}": {"d_input": d_input, "d_state": d_state}
        for d_input, d_state in settings["shapes"]
    }
    teachers = parquet.collect(shapes, results / "teachers", TEACHERS)
    learners = parquet.collect(shapes, results / "learners", LEARNERS)
    found = _evaluated(shapes, results / "evaluation")
    stacks = parquet.read_frame(results / "stacks/stacks.parquet", STACKS)
    job.report(f"{len(found.points)} points, {len(found.gradients)} sequence gradients")
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
    table = numbers_table(numbers, paper_numbers(published(PUBLISHED, PAPER_TABLES)))
    provenance = {"settings": settings, "versions": versions()}
    write_numbers(table, folder, provenance)
    atomic.write_text(folder / "summary.txt", bounds_text(table))
    for name, draw in figures(found, learners, teachers, table).items():
        save_figure(draw, folder / name)


def _evaluated(shapes: Mapping[str, Mapping[str, Any]], folder: Path) -> Evaluated:
    points, gradients, curvature, trajectories = (
        parquet.collect(shapes, folder, table)
        for table in (POINTS, GRADIENTS, CURVATURE, TRAJECTORIES)
    )
    return Evaluated(
        bound_fits.with_hessians(points, curvature),
        with_utilization(with_bounds(points, gradients, every=True)),
        with_bounds(points, curvature, every=False),
        trajectories,
    )
