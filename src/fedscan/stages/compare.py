"""Stage ``compare``: all runs -> the comparison table and the validation curves."""

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedscan import grid
from fedscan.analysis import comparison_numbers
from fedscan.analysis.bound_tables import numbers_table
from fedscan.analysis.curves import validation_curves
from fedscan.analysis.numbers_text import numbers_text
from fedscan.analysis.selection import compare
from fedscan.analysis.text_table import comparison_text
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.paper_tables import paper_tables


def run(settings: Mapping[str, Any], federated: str, folder: str, report: Log) -> None:
    """Write the collected runs and rounds, the comparison and the figure.

    Args:
        settings: section ``studies``.
        federated: folder of the training jobs.
        folder: receives all_runs, all_rounds, comparison and numbers (Parquet, CSV, text), curves.
        report: the job's log.
    """
    runs = grid.runs(settings["studies"])
    provenance = {"settings": settings, "versions": versions()}
    all_runs = _collect(runs, federated, "runs")
    all_rounds = _collect(runs, federated, "rounds")
    parquet.write(f"{folder}/all_runs.parquet", "all_runs", all_runs, provenance)
    parquet.write(f"{folder}/all_rounds.parquet", "all_rounds", all_rounds, provenance)
    table = compare(all_runs, sorted({run.job.seed for run in runs}))
    parquet.write(f"{folder}/comparison.parquet", "comparison", table, provenance)
    with atomic.replacing(f"{folder}/comparison.csv") as temporary:
        table.to_csv(temporary, index=False)
    numbers = _numbers(all_runs, table)
    parquet.write(f"{folder}/numbers.parquet", "numbers", numbers, provenance)
    with atomic.replacing(f"{folder}/numbers.csv") as temporary:
        numbers.to_csv(temporary, index=False)
    atomic.write_text(f"{folder}/numbers.txt", numbers_text(numbers))
    text = comparison_text(table)
    atomic.write_text(f"{folder}/comparison.txt", text)
    report(text)
    save_figure(validation_curves(all_rounds, table), f"{folder}/validation_curves")


def _numbers(runs: pd.DataFrame, comparison: pd.DataFrame) -> pd.DataFrame:
    """Return what theory expected and what happened, with the paper's numbers beside ours."""
    paired = comparison_numbers.changes(runs, comparison)
    tables = paper_tables(("table2", *comparison_numbers.FACTORS))
    numbers = [
        *comparison_numbers.table2(comparison),
        *comparison_numbers.correlations(paired),
        *comparison_numbers.paired_tests(paired),
        *comparison_numbers.factor_tables(runs, comparison),
    ]
    table = numbers_table(numbers, comparison_numbers.paper_numbers(tables))
    source, tokenizer = runs["data_source"].iloc[0], runs["tokenizer"].iloc[0]
    both = table["value"].notna() & table["paper"].notna() & (table["note"] == "")
    rounds = int(runs["rounds"].max())
    made = f"{source} text, {tokenizer} tokens, {rounds} rounds; the paper: RedPajama, GPT-2, 50"
    return table.assign(note=table["note"].mask(both, made))


def _collect(runs: list[grid.Run], federated: str, table: str) -> pd.DataFrame:
    """Join the jobs' tables, with the keys of their paths as columns."""
    frames = []
    for path, members in grid.jobs(runs).items():
        frame = parquet.read_frame(os.path.join(federated, path, f"{table}.parquet"), table)
        job = members[0].job._asdict()
        frames.append(frame.assign(**job)[[*job, *frame.columns]])
    return pd.concat(frames, ignore_index=True)
