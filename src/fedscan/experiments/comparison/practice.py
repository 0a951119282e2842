"""Stage ``practice``: per-round quantities of all runs -> which of them orders the algorithms."""

from pathlib import Path

import pandas as pd

from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison import quantities as practice
from fedscan.experiments.comparison.collect import RUN_KEY, ended
from fedscan.experiments.comparison.practice_figures import figures
from fedscan.experiments.comparison.selection import CONFIGURATION
from fedscan.experiments.comparison.summary_tables import ALL_RUNS, COMPARISON, QUANTITIES
from fedscan.experiments.comparison.tables import CLIENTS, HEADS, MIXERS, ROUNDS
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.stage import Job

PARTS = (ROUNDS, CLIENTS, MIXERS, HEADS)


def run(job: Job) -> None:
    """Write every run's quantities, how well each orders the algorithms, and two figures.

    Args:
        job: settings: sections ``studies`` and ``analysis``; input ``compared``, folder written by
            stage ``compare``. Its folder receives quantities, numbers (Parquet, CSV, text) and the
            figures.
    """
    settings, compared, folder = job.settings, job.inputs["compared"], job.folder
    provenance = {"settings": settings, "versions": versions()}
    runs = parquet.read_frame(compared / "all_runs.parquet", ALL_RUNS)
    comparison = parquet.read_frame(compared / "comparison.parquet", COMPARISON)
    found = _quantities(grid.runs(settings["studies"]), job.results / "federated")
    found = found.merge(runs[RUN_KEY], on=RUN_KEY, validate="1:1")
    parquet.write(folder / "quantities.parquet", QUANTITIES, found, provenance)
    analysis = settings["analysis"]
    selected = comparison[comparison["study"] == analysis["grid"]]
    selected = selected[[*CONFIGURATION, "algorithm", "value"]]
    chosen = runs[runs["status"] == "completed"].merge(selected, on=list(selected.columns))
    joined = practice.outcomes(chosen, found, analysis["expectation_between"])
    numbers = list(practice.ordering(practice.rank_correlations(joined)))
    job.report(f"{len(found)} runs, {len(joined)} of them selected by the grid")
    table = numbers_table(numbers, {})
    write_numbers(table, folder, provenance)
    for name, draw in figures(table, joined).items():
        save_figure(draw, folder / name)


def _quantities(runs: list[grid.Run], federated: Path) -> pd.DataFrame:
    """Summarise job by job: all heads of all rounds of all runs would not fit into memory."""
    frames = []
    for path, members in ended(runs, federated).items():
        tables = [parquet.read_frame(federated / path / f"{t.name}.parquet", t) for t in PARTS]
        frame = practice.run_quantities(*tables)
        frames.append(frame.assign(**members[0].job._asdict()))
    return pd.concat(frames, ignore_index=True)
