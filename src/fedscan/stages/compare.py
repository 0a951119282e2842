"""Stage ``compare``: all runs -> the comparison, the numbers beside the paper's, and figures."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan import grid
from fedscan.analysis import comparison_numbers, study_numbers
from fedscan.analysis.comparison_figures import figures
from fedscan.analysis.numbers import Number, numbers_table
from fedscan.analysis.paper_settings import differences
from fedscan.analysis.selection import compare
from fedscan.analysis.text_table import comparison_text
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.models.backbones import BACKBONES
from fedscan.models.language_model import Architecture, parameter_counts
from fedscan.stages.collect import RUN_KEY, asked_for, collect, present
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.number_files import write_numbers, write_table
from fedscan.stages.paper_tables import paper_tables

TABLES = (
    *("table2", "table5"),
    *comparison_numbers.FACTORS,
    *comparison_numbers.CLIENT_COUNT,
    *comparison_numbers.BACKBONE,
)


def run(settings: Mapping[str, Any], results: str, folder: str, report: Log) -> None:
    """Write the collected runs and rounds, the comparison, the numbers and the figures.

    Runs that are not there, or were made under another configuration, are left out and counted.

    Args:
        settings: sections ``studies``, ``analysis``, ``training`` and ``model``, and ``paper``,
            the settings that are compared with the paper's.
        results: folder of all results.
        folder: receives all_runs, all_rounds, comparison and numbers (Parquet, CSV, text), figures.
        report: the job's log.
    """
    runs = grid.runs(settings["studies"])
    provenance = {"settings": settings, "versions": versions()}
    all_runs, all_rounds = _collected(runs, settings, f"{results}/federated", report)
    parquet.write(f"{folder}/all_runs.parquet", "all_runs", all_runs, provenance)
    parquet.write(f"{folder}/all_rounds.parquet", "all_rounds", all_rounds, provenance)
    studies = asked_for(runs, all_runs)
    table = pd.concat(
        [compare(part).assign(study=study) for study, part in studies.items()], ignore_index=True
    )
    write_table(table, "comparison", folder, provenance)
    partitions = _partitions(runs, f"{results}/partition")
    numbers = _numbers(settings, studies, table, partitions)
    write_numbers(numbers, folder, provenance)
    text = comparison_text(table, settings["paper"]["text"], settings["paper"]["tokenizer"])
    atomic.write_text(f"{folder}/comparison.txt", text)
    report(text)
    for name, draw in figures(table, all_rounds, settings["analysis"], settings["paper"]).items():
        save_figure(draw, f"{folder}/{name}")


def _collected(
    runs: list[grid.Run], settings: Mapping[str, Any], federated: str, report: Log
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the present runs and their rounds."""
    found = collect(runs, federated, "runs")
    current = present(runs, found, settings["training"], settings["model"])
    kept = found[current].reset_index(drop=True)
    report(f"{len(kept)} of {len(runs)} runs; {int((~current).sum())} of another configuration")
    if kept.empty:
        raise ValueError(f"{federated}: no run of this configuration is there yet")
    rounds = collect(runs, federated, "rounds")
    return kept, rounds.merge(kept[RUN_KEY], on=RUN_KEY, validate="m:1")


def _partitions(runs: list[grid.Run], folder: str) -> pd.DataFrame:
    frames = []
    for setting, beta, clients in sorted(
        {(r.job.setting, r.job.beta, r.job.clients) for r in runs}
    ):
        path = Path(folder, grid.partition_path(setting, beta, clients), "partition.parquet")
        if path.exists():
            frame = parquet.read_frame(path, "partition")
            frames.append(frame.assign(setting=setting, beta=beta, clients=clients))
    if not frames:
        raise ValueError(f"{folder}: no partition of this configuration is there yet")
    return pd.concat(frames, ignore_index=True)


def _numbers(
    settings: Mapping[str, Any],
    studies: Mapping[str, pd.DataFrame],
    table: pd.DataFrame,
    partitions: pd.DataFrame,
) -> pd.DataFrame:
    """Return what theory expected and what happened, with the paper's numbers beside ours."""
    published = paper_tables(TABLES)
    found = [
        *_grid_numbers(settings["analysis"], studies, table),
        *study_numbers.budgets(partitions),
        *study_numbers.model_sizes(_sizes(settings)),
    ]
    paper = comparison_numbers.paper_numbers(published) | study_numbers.paper_sizes(
        published["table5"]
    )
    numbers = numbers_table(found, paper)
    note = differences(settings["paper"])
    both = numbers["value"].notna() & numbers["paper"].notna() & (numbers["note"] == "")
    return numbers.assign(note=numbers["note"].mask(both, note))


def _grid_numbers(
    analysis: Mapping[str, Any], studies: Mapping[str, pd.DataFrame], table: pd.DataFrame
) -> Iterator[Number]:
    between, runs = analysis["expectation_between"], studies[analysis["grid"]]
    comparison = table[table["study"] == analysis["grid"]]
    paired = comparison_numbers.changes(runs, comparison)
    yield from comparison_numbers.table2(comparison, between, analysis["similar_percent"])
    yield from comparison_numbers.correlations(paired, between)
    yield from comparison_numbers.paired_tests(paired)
    yield from comparison_numbers.factor_tables(runs, comparison, comparison_numbers.FACTORS)
    for study, factors in (
        (analysis["client_count"], comparison_numbers.CLIENT_COUNT),
        (analysis["backbone"], comparison_numbers.BACKBONE),
    ):
        if study is not None:
            part = table[table["study"] == study]
            yield from comparison_numbers.factor_tables(studies[study], part, factors)


def _sizes(settings: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, int]]:
    shapes = {(r.job.backbone, r.job.depth) for r in grid.runs(settings["studies"])}
    found = {}
    for backbone, depth in sorted(shapes):
        layers = BACKBONES[backbone](depth)
        shape = Architecture(depth=depth, attention_layers=layers, **settings["model"])
        found[backbone, depth] = parameter_counts(shape)
    return found
