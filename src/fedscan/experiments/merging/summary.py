"""Stage ``merging``: all specialists and merges -> tables beside the paper's, and figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.analysis.numbers import numbers_table
from fedscan.experiments.merging.figures import figures
from fedscan.experiments.merging.merge_tables import (
    ALL_DISPLACEMENTS,
    ALL_MERGES,
    ALL_SPECIALIST_ACCURACY,
    ALL_TASK_VECTORS,
    DISPLACEMENTS,
    MERGES,
    SPECIALIST_ACCURACY,
    TASK_VECTORS,
)
from fedscan.experiments.merging.numbers import TABLES, Merged, numbers, paper_numbers
from fedscan.experiments.merging.tables import MERGING_BASE
from fedscan.experiments.merging.text import merging_text
from fedscan.io import atomic, parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.numbers import write_numbers
from fedscan.pipeline.paper import published
from fedscan.pipeline.stage import Job

# Folder of the paper's CSV files.
PUBLISHED = "fedscan.experiments.merging.published"


def run(job: Job) -> None:
    """Write the collected tables, the numbers, the summary and the figures.

    Args:
        job: settings: ``bases`` (name -> checkpoint of the paper or null), ``seeds`` and
            ``source``. Its folder receives all_* tables, numbers (Parquet, CSV, text), summary.txt
            and figures.
    """
    settings, folder, root = job.settings, job.folder, job.results / "merging"
    bases = settings["bases"]
    evaluated = {f"base={base}": {"base": base} for base in bases}
    merged = {
        f"base={base}/seed={seed}": {"base": base, "seed": seed}
        for base in bases
        for seed in settings["seeds"]
    }
    found = Merged(
        parquet.collect(evaluated, root / "accuracy", SPECIALIST_ACCURACY),
        *(
            parquet.collect(merged, root / "merges", table)
            for table in (MERGES, DISPLACEMENTS, TASK_VECTORS)
        ),
        names={base: paper or base for base, paper in bases.items()},
    )
    provenance = {"settings": settings, "versions": versions()}
    for declared, frame in (
        (ALL_SPECIALIST_ACCURACY, found.accuracy),
        (ALL_MERGES, found.merges),
        (ALL_DISPLACEMENTS, found.displacements),
        (ALL_TASK_VECTORS, found.task_vectors),
    ):
        parquet.write(folder / f"{declared.name}.parquet", declared, frame, provenance)
    table = _numbers(found, _remark(root, settings))
    write_numbers(table, folder, provenance)
    text = merging_text(found, settings["source"])
    atomic.write_text(folder / "summary.txt", text)
    job.report(text)
    for name, draw in figures(found).items():
        save_figure(draw, folder / name)


def _numbers(found: Merged, remark: str) -> pd.DataFrame:
    """Put the paper's numbers beside ours, whose rows have its names: each says what differs."""
    paper = paper_numbers(published(PUBLISHED, TABLES), found.names)
    table = numbers_table(list(numbers(found)), paper)
    ours = table["value"].notna() & table["table"].isin(TABLES)
    notes = table["note"].where(table["note"] == "", table["note"] + "; ") + remark
    return table.assign(note=table["note"].mask(ours, notes))


def _remark(root: Path, settings: Mapping[str, Any]) -> str:
    """Say what the numbers are of, and what the paper's are."""
    parts = []
    for base in settings["bases"]:
        (facts,) = parquet.read(root / f"bases/base={base}/base.parquet", MERGING_BASE).to_pylist()
        parts.append(f"{base} of {facts['parameters']:,} parameters, {facts['tokenizer']} tokens")
    made = f"{settings['source']} tasks, {'; '.join(parts)}, {len(settings['seeds'])} seed(s)"
    return f"this run: {made}; the paper: real tasks, public checkpoint, GPT-2 tokens, 3 seeds"
