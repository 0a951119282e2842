"""Checks of one-shot merging: nothing missing, models unchanged, averages inside their ball."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedscan.experiments.bounds.checks import Check
from fedscan.experiments.merging import grid as merging_grid
from fedscan.io import parquet

# Norms are sums of many float32 entries.
ROUNDING = 1e-6


def merging_checks(settings: Mapping[str, Any], results: str) -> Iterator[Check]:
    """Check the tables of merging.

    Args:
        settings: ``bases``, ``tasks``, ``seeds``, ``mus``, ``checkpoint_epochs``, ``operators``,
            ``codes`` (fingerprint per table) and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        One check per base, seed and subject.
    """
    root = Path(results, "merging")
    for base in settings["bases"]:
        for seed in settings["seeds"]:
            for task in settings["tasks"]:
                path = f"specialists/base={base}/task={task}/seed={seed}"
                yield from _specialists(root / path, path, settings)
            path = f"merges/base={base}/seed={seed}"
            yield from _merges(root / path, path, settings)


def _specialists(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    table = parquet.read_frame(folder / "specialists.parquet", "specialists")
    kept = table[table["model_file"].notna()]
    changed = [
        file
        for file, digest in zip(kept["model_file"], kept["model_sha256"], strict=True)
        if not (folder / file).is_file() or _sha256(folder / file) != digest
    ]
    detail = f"{len(kept)} models, changed or gone: {', '.join(changed) or 'none'}"
    yield Check("specialists' models are those of the table", path, not changed, detail)
    yield _present_code(table, "specialists", path, settings)


def _merges(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    table = parquet.read_frame(folder / "merges.parquet", "merges")
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
    moved = parquet.read_frame(folder / "displacements.parquet", "displacements")
    averages = moved[(moved["operator"] == "average") & (moved["status"] == "completed")]
    inside = averages["displacement"] <= averages["mean_norm"] * (1 + ROUNDING)
    detail = f"{int(inside.sum())} of {len(averages)} averages within sum p ||T||"
    yield Check("averages stay within their specialists", path, bool(inside.all()), detail)
    yield _present_code(table, "merges", path, settings)


def _present_code(table: pd.DataFrame, stage: str, path: str, settings: Mapping[str, Any]) -> Check:
    old = int((table["code_hash"] != settings["codes"][stage]).sum())
    accepted = not old or not settings["rerun_on_code_change"]
    return Check("merging results of the present code", path, accepted, f"{old} rows of other code")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
