"""Checks of consensus: nothing missing, measures within their bounds, no statement violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedscan.experiments.consensus.run_tables import MERGES, RUNS
from fedscan.experiments.consensus.tables import CURVES, MODEL, WINDOWS
from fedscan.experiments.consensus.theory_checks import theory_checks
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code

ROUNDING = 1e-9


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of consensus.

    Args:
        settings: ``models``, ``variants``, ``draws``, ``depth``, ``tokens``, ``random``,
            ``theory``, ``study``, ``runs`` (count), ``rounds``, ``run_variants``, ``merging``,
            ``codes`` (fingerprint per stage) and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        Some checks per table.
    """
    root = results / "consensus"
    for name in settings["models"]:
        yield from _model(root / "models" / f"model={name}", f"models/model={name}", settings)
    if settings["study"] is not None:
        yield from _runs(root, settings)
    if settings["merging"]:
        rows = parquet.read_frame(root / "merging/consensus_merges.parquet", MERGES)
        yield _in_range(rows, "merging", rows["status"] == "completed")
        yield _code(rows, "merging", "merging", settings)
    yield from theory_checks(settings, results)


def _model(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    rows = parquet.read_frame(folder / "consensus_curves.parquet", CURVES)
    windows = parquet.read_frame(folder / "consensus_windows.parquet", WINDOWS)
    (facts,) = parquet.read(folder / "consensus_model.parquet", MODEL).to_pylist()
    curves = _curve_count(settings["variants"], facts["layers"])
    wanted = curves * settings["draws"] * (settings["depth"] + 1)
    detail = f"{len(rows)} of {wanted} rows, {curves} curves"
    yield Check("every variant, draw and depth", path, len(rows) == wanted, detail)
    wanted = curves * settings["draws"] * settings["tokens"] * 2
    detail = f"{len(windows)} of {wanted} rows"
    yield Check("every token's windows", path, len(windows) == wanted, detail)
    yield _in_range(rows, path, rows["lambda1"].notna())
    yield _same_start(rows, path, settings)
    failed = rows[rows["status"] == "failed"]
    told = bool(failed["failure"].notna().all())
    detail = f"{len(failed)} rows of failed draws, each with its reason"
    yield Check("failed draws say why", path, told, detail)
    yield _code(rows, path, "models", settings)


def _curve_count(variants: Mapping[str, Mapping[str, Any]], layers: int) -> int:
    counts = (
        (layers if variant["layers"] == "all" else len(variant["layers"]))
        if variant["weights"] == "repeat"
        else 1
        for variant in variants.values()
    )
    return sum(counts)


def _in_range(rows: pd.DataFrame, path: str, measured: pd.Series) -> Check:
    """Every Gram matrix obeys 1 / lambda1 <= participation <= 1 / lambda1^2; means of it do not."""
    rows = rows[measured]
    largest, spread = rows["lambda1"].to_numpy(float), rows["participation"].to_numpy(float)
    within = (largest > 0) & (largest <= 1 + ROUNDING) & (spread >= 1 - ROUNDING)
    within &= spread >= (1 - ROUNDING) / largest
    if "draw" in rows:
        within &= spread <= (1 + ROUNDING) / largest**2
    detail = f"{int(within.sum())} of {len(rows)} rows"
    return Check("lambda1 and participation agree", path, bool(within.all()), detail)


def _same_start(rows: pd.DataFrame, path: str, settings: Mapping[str, Any]) -> Check:
    """Variants that start from the same tokens have equal measures at depth 0."""
    variants = settings["variants"]
    drawn = settings["random"]["mean_cosine"] is not None

    def start(name: str) -> str:
        redrawn = variants[name]["weights"] == "redraw" and drawn
        return "drawn tokens" if redrawn else "embedding"

    first = rows[(rows["depth"] == 0) & (rows["status"] == "completed")]
    kinds = first["variant"].map(start)
    measures = ["lambda1", "participation", "mean_cosine"]
    spread = first.groupby([kinds, first["draw"]])[measures].agg(np.ptp)
    # Tokens scaled to the sphere are rounded once more.
    same = bool((spread.to_numpy(float) <= 1e-5).all())
    detail = f"{first['variant'].nunique()} variants, {first['draw'].nunique()} draws"
    return Check("all variants start from the same tokens", path, same, detail)


def _runs(root: Path, settings: Mapping[str, Any]) -> Iterator[Check]:
    path = f"runs/study={settings['study']}"
    rows = parquet.read_frame(root / path / "consensus_runs.parquet", RUNS)
    runs = rows[rows["kind"] == "run"]
    wanted = settings["runs"] * len(settings["rounds"])
    found = runs.groupby("variant")["subject"].nunique()
    complete = set(found.index) == set(settings["run_variants"]) and bool((found == wanted).all())
    if not wanted:
        complete = runs.empty
    detail = f"{wanted} models, {len(settings['run_variants'])} variants"
    yield Check("every kept model of the study", path, complete, detail)
    yield _in_range(rows, path, rows["status"] == "completed")
    yield _code(rows, path, "runs", settings)


def _code(rows: pd.DataFrame, path: str, stage: str, settings: Mapping[str, Any]) -> Check:
    old = int((rows["code_hash"] != settings["codes"][stage]).sum())
    name, detail = "consensus results of the present code", f"{old} rows of other code"
    return present_code(path, old, detail, settings["rerun_on_code_change"], name)
