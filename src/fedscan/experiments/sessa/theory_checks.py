"""Checks of the claims: all there, none violated, all numbers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedscan.experiments.sessa.theory_tables import CLAIMS, RETRIEVAL
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code

PATH = "sessa/theory"
GROUPS = {"fixed routing", "end to end", "depth", "positions", "retrieval"}


def theory_checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of claims.

    Args:
        settings: ``retrieval`` (pairs of beta and k), ``codes`` and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        A check per subject.
    """
    rows = parquet.read_frame(results / PATH / "sessa_claims.parquet", CLAIMS)
    missing = sorted(GROUPS - set(rows["group"]))
    detail = f"{rows['claim'].nunique()} claims, missing groups: {', '.join(missing) or 'none'}"
    yield Check("every group of claims", PATH, not missing, detail)
    broken = rows[rows["violated"]]
    named = ", ".join(sorted(set(broken["claim"]))) or f"{len(rows)} instances"
    yield Check("no claim is violated", PATH, broken.empty, named)
    applied = rows[rows["applicable"]]
    finite = np.isfinite(applied[["measured", "bound"]].to_numpy(float)).all()
    detail = f"{len(applied)} of {len(rows)} instances apply"
    yield Check("claims are of finite numbers", PATH, bool(finite), detail)
    retrieved = parquet.read_frame(results / PATH / "sessa_retrieval.parquet", RETRIEVAL)
    found = set(zip(retrieved["beta"], retrieved["layers"], strict=True))
    wanted = {(float(beta), int(layers)) for beta, layers in settings["retrieval"]}
    positive = bool((retrieved["margin"] > 0).all()) and found == wanted
    detail = f"{len(found)} of {len(wanted)} constructions, {len(retrieved)} lags"
    yield Check("margins of retrieval are positive", PATH, positive, detail)
    old = int((rows["code_hash"] != settings["codes"]["theory"]).sum())
    name, detail = "sessa results of the present code", f"{old} rows of other code"
    yield present_code(PATH, old, detail, settings["rerun_on_code_change"], name)
