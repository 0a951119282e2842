"""Stage ``compare``: all runs -> the comparison, the numbers beside the paper's, and figures."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.numbers import Key, Number, numbers_table
from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison import numbers as comparison_numbers
from fedscan.experiments.comparison import sizes as study_numbers
from fedscan.experiments.comparison.collect import RUN_KEY, asked_for, collect, present
from fedscan.experiments.comparison.figures import figures
from fedscan.experiments.comparison.paper import differences
from fedscan.experiments.comparison.selection import compare
from fedscan.experiments.comparison.summary_tables import ALL_ROUNDS, ALL_RUNS, COMPARISON
from fedscan.experiments.comparison.tables import ROUNDS, RUNS
from fedscan.experiments.comparison.text import comparison_text
from fedscan.experiments.corpus.grid import partition_path
from fedscan.experiments.corpus.tables import PARTITION
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.models.architecture import Architecture
from fedscan.models.backbones import BACKBONES
from fedscan.models.language_model import parameter_counts
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers, write_table
from fedscan.pipeline.paper import published
from fedscan.pipeline.stage import Job, Log

TABLES = (
    *("table2", "table5"),
    *comparison_numbers.FACTORS,
    *comparison_numbers.CLIENT_COUNT,
    *comparison_numbers.BACKBONE,
)


# Folder of the paper's CSV files.
PUBLISHED = "fedscan.experiments.comparison.published"


def run(job: Job) -> None:
    """Write the collected runs and rounds, the comparison, the numbers and the figures.

    Runs that are not there, or were made under another configuration, are left out and counted.

    Args:
        job: settings: sections ``studies``, ``analysis``, ``training`` and ``model``, and
            ``paper``, the settings that are compared with the paper's. Its folder receives
            all_runs, all_rounds, comparison and numbers (Parquet, CSV, text), figures.
    """
    settings, folder = job.settings, job.folder
    runs = grid.runs(settings["studies"])
    provenance = {"settings": settings, "versions": versions()}
    all_runs, all_rounds = _collected(runs, settings, job.results / "federated", job.report)
    parquet.write(folder / "all_runs.parquet", ALL_RUNS, all_runs, provenance)
    parquet.write(folder / "all_rounds.parquet", ALL_ROUNDS, all_rounds, provenance)
    studies = asked_for(runs, all_runs)
    table = pd.concat(
        [compare(part).assign(study=study) for study, part in studies.items()], ignore_index=True
    )
    write_table(table, COMPARISON, folder, provenance)
    # Methods stand in the order of the paper's Table 2.
    tables = published(PUBLISHED, TABLES)
    ours = [
        *_grid_numbers(settings["analysis"], studies, table, list(tables["table2"]["algorithm"])),
        *study_numbers.budgets(_partitions(runs, job.results / "partition")),
        *study_numbers.model_sizes(_sizes(runs, settings["model"])),
    ]
    numbers = _with_differences(numbers_table(ours, _paper(tables)), differences(settings["paper"]))
    write_numbers(numbers, folder, provenance)
    text = comparison_text(table, settings["paper"]["text"], settings["paper"]["tokenizer"])
    atomic.write_text(folder / "comparison.txt", text)
    job.report(text)
    for name, draw in figures(table, all_rounds, settings["analysis"], settings["paper"]).items():
        save_figure(draw, folder / name)


def _collected(
    runs: list[grid.Run], settings: Mapping[str, Any], federated: Path, report: Log
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the present runs and their rounds."""
    found = collect(runs, federated, RUNS)
    current = present(runs, found, settings["training"], settings["model"])
    kept = found[current].reset_index(drop=True)
    report(f"{len(kept)} of {len(runs)} runs; {int((~current).sum())} of another configuration")
    if kept.empty:
        raise ValueError(f"{federated}: no run of this configuration is there yet")
    rounds = collect(runs, federated, ROUNDS)
    return kept, rounds.merge(kept[RUN_KEY], on=RUN_KEY, validate="m:1")


def _partitions(runs: list[grid.Run], folder: Path) -> pd.DataFrame:
    frames = []
    for setting, beta, clients in sorted(
        {(r.job.setting, r.job.beta, r.job.clients) for r in runs}
    ):
        path = folder / partition_path(setting, beta, clients) / "partition.parquet"
        if path.exists():
            frame = parquet.read_frame(path, PARTITION)
            frames.append(frame.assign(setting=setting, beta=beta, clients=clients))
    if not frames:
        raise ValueError(f"{folder}: no partition of this configuration is there yet")
    return pd.concat(frames, ignore_index=True)


def _paper(tables: Mapping[str, pd.DataFrame]) -> dict[Key, float]:
    """Return the paper's numbers."""
    return comparison_numbers.paper_numbers(tables) | study_numbers.paper_sizes(tables["table5"])


def _with_differences(numbers: pd.DataFrame, note: str) -> pd.DataFrame:
    """Say beside every number that the paper has too what this run does otherwise."""
    both = numbers["value"].notna() & numbers["paper"].notna() & (numbers["note"] == "")
    return numbers.assign(note=numbers["note"].mask(both, note))


def _grid_numbers(
    analysis: Mapping[str, Any],
    studies: Mapping[str, pd.DataFrame],
    table: pd.DataFrame,
    order: Sequence[str],
) -> Iterator[Number]:
    between, runs = analysis["expectation_between"], studies[analysis["grid"]]
    comparison = table[table["study"] == analysis["grid"]]
    paired = comparison_numbers.changes(runs, comparison)
    yield from comparison_numbers.table2(comparison, between, analysis["similar_percent"])
    yield from comparison_numbers.correlations(paired, between)
    yield from comparison_numbers.paired_tests(paired, order)
    yield from comparison_numbers.factor_tables(runs, comparison, comparison_numbers.FACTORS)
    for study, factors in (
        (analysis["client_count"], comparison_numbers.CLIENT_COUNT),
        (analysis["backbone"], comparison_numbers.BACKBONE),
    ):
        if study is not None:
            part = table[table["study"] == study]
            yield from comparison_numbers.factor_tables(studies[study], part, factors)


def _sizes(runs: list[grid.Run], model: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, int]]:
    shapes = {(r.job.backbone, r.job.depth) for r in runs}
    found = {}
    for backbone, depth in sorted(shapes):
        kinds = BACKBONES[backbone](depth)
        shape = Architecture(mixers=kinds, **model)
        found[backbone, depth] = parameter_counts(shape)
    return found
