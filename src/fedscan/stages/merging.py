"""Stage ``merging``: all specialists and merges -> tables beside the paper's, and figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.merging_figures import figures
from fedscan.analysis.merging_numbers import TABLES, Merged, numbers, paper_numbers
from fedscan.analysis.merging_text import merging_text
from fedscan.analysis.numbers import numbers_table
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.stages.figure_files import save_figure
from fedscan.stages.job import Log
from fedscan.stages.number_files import write_numbers
from fedscan.stages.paper_tables import paper_tables


def run(settings: Mapping[str, Any], merging: str, folder: str, report: Log) -> None:
    """Write the collected tables, the numbers, the summary and the figures.

    Args:
        settings: ``bases`` (name -> checkpoint of the paper or null), ``seeds`` and ``source``.
        merging: folder results/merging.
        folder: receives all_* tables, numbers (Parquet, CSV, text), summary.txt and figures.
        report: the job's log.
    """
    root, bases = Path(merging), settings["bases"]
    found = Merged(
        _accuracies(root, list(bases)),
        *(_collect(root, settings, table) for table in ("merges", "displacements", "task_vectors")),
        names={base: paper or base for base, paper in bases.items()},
    )
    provenance = {"settings": settings, "versions": versions()}
    collected = {
        "all_specialist_accuracy": found.accuracy,
        "all_merges": found.merges,
        "all_displacements": found.displacements,
        "all_task_vectors": found.task_vectors,
    }
    for table, frame in collected.items():
        parquet.write(f"{folder}/{table}.parquet", table, frame, provenance)
    table = _numbers(found, _remark(root, settings))
    write_numbers(table, folder, provenance)
    text = merging_text(found, settings["source"])
    atomic.write_text(f"{folder}/summary.txt", text)
    report(text)
    for name, draw in figures(found).items():
        save_figure(draw, f"{folder}/{name}")


def _numbers(found: Merged, remark: str) -> pd.DataFrame:
    """Put the paper's numbers beside ours, whose rows have its names: each says what differs."""
    paper = paper_numbers(paper_tables(TABLES), found.names)
    table = numbers_table(list(numbers(found)), paper)
    ours = table["value"].notna() & table["table"].isin(TABLES)
    notes = table["note"].where(table["note"] == "", table["note"] + "; ") + remark
    return table.assign(note=table["note"].mask(ours, notes))


def _remark(root: Path, settings: Mapping[str, Any]) -> str:
    """Say what the numbers are of, and what the paper's are."""
    parts = []
    for base in settings["bases"]:
        (facts,) = parquet.read(
            root / f"bases/base={base}/base.parquet", "merging_base"
        ).to_pylist()
        parts.append(f"{base} of {facts['parameters']:,} parameters, {facts['tokenizer']} tokens")
    made = f"{settings['source']} tasks, {'; '.join(parts)}, {len(settings['seeds'])} seed(s)"
    return f"this run: {made}; the paper: real tasks, public checkpoint, GPT-2 tokens, 3 seeds"


def _accuracies(root: Path, bases: list[str]) -> pd.DataFrame:
    table = "specialist_accuracy"
    frames = [
        parquet.read_frame(root / f"accuracy/base={base}/{table}.parquet", table).assign(base=base)
        for base in bases
    ]
    return pd.concat(frames, ignore_index=True)


def _collect(root: Path, settings: Mapping[str, Any], table: str) -> pd.DataFrame:
    """Join the tables of all bases and seeds, with the keys of their paths as columns."""
    frames = [
        parquet.read_frame(root / f"merges/base={base}/seed={seed}/{table}.parquet", table).assign(
            base=base, seed=seed
        )
        for base in settings["bases"]
        for seed in settings["seeds"]
    ]
    return pd.concat(frames, ignore_index=True)
