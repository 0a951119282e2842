"""Checks of one-shot merging: nothing missing, models unchanged, averages inside their ball."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.experiments.merging import grid as merging_grid
from fedscan.experiments.merging.merge_tables import DISPLACEMENTS, MERGES
from fedscan.experiments.merging.tables import SPECIALISTS
from fedscan.io import parquet
from fedscan.io.digests import file_sha256
from fedscan.pipeline.checks import Check, present_code

# Norms are sums of many float32 entries.
ROUNDING = 1e-6


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of merging.

    Args:
        settings: ``bases``, ``tasks``, ``seeds``, ``mus``, ``checkpoint_epochs``, ``operators``,
            ``codes`` (fingerprint per table) and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        One check per base, seed and subject.
    """
    root = results / "merging"
    for base in settings["bases"]:
        for seed in settings["seeds"]:
            for task in settings["tasks"]:
                path = f"specialists/base={base}/task={task}/seed={seed}"
                yield from _specialists(root / path, path, settings)
            path = f"merges/base={base}/seed={seed}"
            yield from _merges(root / path, path, settings)


def _specialists(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    table = parquet.read_frame(folder / "specialists.parquet", SPECIALISTS)
    kept = table[table["model_file"].notna()]
    changed = [
        file
        for file, digest in zip(kept["model_file"], kept["model_sha256"], strict=True)
        if not (folder / file).is_file() or file_sha256(folder / file) != digest
    ]
    detail = f"{len(kept)} models, changed or gone: {', '.join(changed) or 'none'}"
    yield Check("specialists' models are those of the table", path, not changed, detail)
    yield _present_code(table, "specialists", path, settings)


def _merges(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    table = parquet.read_frame(folder / "merges.parquet", MERGES)
    plan = merging_grid.merges(
        settings["mus"], settings["checkpoint_epochs"], settings["operators"]
    )
    wanted = {(merge.name, task) for merge in plan for task in settings["tasks"]}
    found = set(zip(table["model"], table["evaluated_on"], strict=True))
    detail = f"{len(found)} of {len(wanted)} merges x tasks"
    yield Check("every merge on every task", path, found == wanted, detail)
    done = table[table["status"] == "completed"]
    counted = (100 * done["correct"] / done["examples"] - done["accuracy"]).abs() < ROUNDING
    yield Check("accuracies are correct / examples", path, bool(counted.all()), f"{len(done)} rows")
    moved = parquet.read_frame(folder / "displacements.parquet", DISPLACEMENTS)
    averages = moved[(moved["operator"] == "average") & (moved["status"] == "completed")]
    inside = averages["displacement"] <= averages["mean_norm"] * (1 + ROUNDING)
    detail = f"{int(inside.sum())} of {len(averages)} averages within sum p ||T||"
    yield Check("averages stay within their specialists", path, bool(inside.all()), detail)
    yield _present_code(table, "merges", path, settings)


def _present_code(table: pd.DataFrame, stage: str, path: str, settings: Mapping[str, Any]) -> Check:
    old = int((table["code_hash"] != settings["codes"][stage]).sum())
    name, detail = "merging results of the present code", f"{old} rows of other code"
    return present_code(path, old, detail, settings["rerun_on_code_change"], name)
