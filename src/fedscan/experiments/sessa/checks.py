"""Checks of Sessa's comparison: nothing missing, data as described, no bound violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedscan.experiments.sessa.grid import FederatedUnit, Unit
from fedscan.experiments.sessa.tables import (
    CURVES,
    DIAGNOSED,
    EXAMPLES,
    FEDERATED_CLIENTS,
    FEDERATED_ROUNDS,
    FEDERATED_RUNS,
    JACOBIANS,
    RUNS,
)
from fedscan.experiments.sessa.theory_checks import theory_checks
from fedscan.io import parquet
from fedscan.io.digests import file_sha256
from fedscan.pipeline.checks import Check, present_code

PRESENT = "sessa results of the present code"


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of this room.

    Args:
        settings: ``mixers``, ``tasks`` (name -> ``section``, ``units``, ``steps``), ``seeds``,
            ``diagnosed`` (tasks), ``federated`` (section or null), ``federated_units`` and
            ``federated_codes`` (per algorithm), ``codes`` (fingerprint per stage), ``retrieval``
            and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        Some checks per table.
    """
    root = results / "sessa"
    for task, asked in settings["tasks"].items():
        yield from _data(root / f"data/task={task}", f"data/task={task}", asked["section"])
        for mixer in settings["mixers"]:
            path = f"task={task}/mixer={mixer}"
            yield from _training(root / "training" / path, f"training/{path}", asked, settings)
            if task in settings["diagnosed"]:
                yield from _diagnosed(root / "diagnostics" / path, f"diagnostics/{path}", settings)
    if settings["federated"] is not None:
        yield from _federated(root, settings)
    yield from theory_checks(settings, results)


def _data(folder: Path, path: str, section: Mapping[str, Any]) -> Iterator[Check]:
    rows = parquet.read(folder / "sessa_examples.parquet", EXAMPLES).to_pylist()
    counts = pd.Series([(row["split"], row["factor"]) for row in rows]).value_counts().to_dict()
    wanted = {("train", 1): section["train"], ("validation", 1): section["validation"]}
    wanted |= {("test", factor): section["test"] for factor in section["test_factors"]}
    yield Check("every sequence of a task", path, counts == wanted, f"{len(rows)} sequences")
    asked = all(row["places"] and row["places"][-1] < row["length"] for row in rows)
    yield Check("every sequence asks, inside itself", path, asked, f"{len(rows)} sequences")
    # An answer may be the next token, or none of the sequence's.
    follows = all(
        row["tokens"][place + 1] == answer
        for row in rows
        if row["lags"] and row["pairs"] is None
        for place, answer in zip(row["places"], row["answers"], strict=True)
    )
    yield Check("what recall asks for follows", path, follows, f"{len(rows)} sequences")
    if "lag" in section:
        low, high = section["lag"]
        inside = all(
            row["factor"] * low <= row["lag_min"] and row["lag_max"] <= row["factor"] * high
            for row in rows
        )
        yield Check("lags lie in their range", path, inside, f"{low} to {high}, times the factor")
    if "left_styles" in section:
        labels = pd.Series([row["label"] for row in rows if row["split"] == "train"])
        equal = labels.value_counts().nunique() == 1
        yield Check("classes are balanced", path, bool(equal), f"{labels.nunique()} classes")


def _training(
    folder: Path, path: str, asked: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[Check]:
    runs = parquet.read_frame(folder / "sessa_runs.parquet", RUNS)
    curves = parquet.read_frame(folder / "sessa_curves.parquet", CURVES)
    wanted = [tuple(Unit(*unit)) for unit in asked["units"]]
    found = list(zip(*(runs[name] for name in Unit._fields), strict=True))
    yield Check("every run of a mixer", path, found == wanted, f"{len(found)} of {len(wanted)}")
    done = runs[runs["status"] == "completed"]
    whole = bool((done["steps"] == asked["steps"]).all())
    yield Check("runs took all their steps", path, whole, f"{len(done)} completed")
    counts = curves.groupby(list(Unit._fields))["step"].agg(["count", "max"])
    steady = bool((counts["count"] == counts["max"]).all()) and len(counts) >= len(done)
    yield Check("steps count up from 1", path, steady, f"{len(curves)} steps")
    changed = [
        file
        for file, digest in zip(done["model_file"], done["model_sha256"], strict=True)
        if not (folder / file).is_file() or file_sha256(folder / file) != digest
    ]
    detail = f"{len(done)} models, changed or gone: {', '.join(changed) or 'none'}"
    yield Check("models are those of the table", path, not changed, detail)
    yield _code(runs, path, settings["codes"]["training"], settings)


def _diagnosed(folder: Path, path: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    rows = parquet.read_frame(folder / "sessa_diagnosed.parquet", DIAGNOSED)
    profiles = parquet.read_frame(folder / "sessa_jacobians.parquet", JACOBIANS)
    trained = rows[rows["weights"] == "trained"]["seed"].tolist()
    detail = f"{len(rows)} models"
    yield Check("every seed's model is diagnosed", path, trained == settings["seeds"], detail)
    broken, bounded = int(profiles["violated"].sum()), int(profiles["bound"].notna().sum())
    detail = f"{broken} of {bounded} profiles above Theorem 8's bound, realised constants"
    yield Check("no decay bound is violated", path, not broken, detail)
    finite = bool(np.isfinite(profiles["norm"].to_numpy(float)).all())
    yield Check("profiles are finite", path, finite, f"{len(profiles)} rows")
    yield _code(rows, path, settings["codes"]["diagnostics"], settings)


def _federated(root: Path, settings: Mapping[str, Any]) -> Iterator[Check]:
    section = settings["federated"]
    for task in section["tasks"]:
        for mixer in section["mixers"]:
            for algorithm in section["algorithms"]:
                path = f"federated/task={task}/mixer={mixer}/algorithm={algorithm}"
                yield from _federated_job(root / path, path, algorithm, settings)


def _federated_job(
    folder: Path, path: str, algorithm: str, settings: Mapping[str, Any]
) -> Iterator[Check]:
    runs, rounds, clients = (
        parquet.read_frame(folder / f"{one.name}.parquet", one)
        for one in (FEDERATED_RUNS, FEDERATED_ROUNDS, FEDERATED_CLIENTS)
    )
    section = settings["federated"]
    wanted = len(settings["federated_units"][algorithm])
    detail = f"{len(runs)} of {wanted} runs"
    yield Check("every federated run of a mixer", path, len(runs) == wanted, detail)
    done = runs[runs["status"] == "completed"]
    whole = (
        bool((done["rounds"] == section["rounds"]).all()) and len(rounds) == runs["rounds"].sum()
    )
    yield Check("recorded rounds are there", path, bool(whole), f"{len(rounds)} rounds")
    keys = list(FederatedUnit._fields)
    held = clients.groupby(keys, dropna=False)["client"].nunique()
    full = bool((held == section["clients"]).all()) and len(held) == len(runs)
    yield Check("every client holds sequences", path, full, f"{section['clients']} clients")
    yield _code(runs, path, settings["federated_codes"][algorithm], settings)


def _code(rows: pd.DataFrame, path: str, code: str, settings: Mapping[str, Any]) -> Check:
    old = int((rows["code_hash"] != code).sum())
    detail = f"{old} rows of other code"
    return present_code(path, old, detail, settings["rerun_on_code_change"], PRESENT)
