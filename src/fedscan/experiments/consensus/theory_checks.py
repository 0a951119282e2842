"""Checks of the random instances: all there, no statement violated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.consensus.theory_tables import INSTANCES
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code

PATH = "theory"


def theory_checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the table of random instances.

    Args:
        settings: ``theory`` (section), ``codes`` and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        A check per subject.
    """
    rows = parquet.read_frame(results / "consensus/theory/consensus_instances.parquet", INSTANCES)
    theory = settings["theory"]
    kinds = sum(
        len(theory["anisotropies"]) if kernel == "definite" else 1 for kernel in theory["kernels"]
    )
    wanted = 2 * kinds * theory["instances"]
    detail = f"{len(rows)} of {wanted} rows, with and without SiLU"
    yield Check("every random instance", PATH, len(rows) == wanted, detail)
    counted = [column.name for column in INSTANCES.columns if "violations" in column.name]
    sums = rows[counted].sum()
    broken = ", ".join(f"{name}: {count}" for name, count in sums.items() if count)
    detail = broken or f"{len(counted)} statements"
    yield Check("no statement on consensus is violated", PATH, not broken, detail)
    failed = int((rows["status"] == "failed").sum())
    detail = f"{failed} of {len(rows)} became non-finite"
    yield Check("random instances stay finite", PATH, not failed, detail)
    old = int((rows["code_hash"] != settings["codes"]["theory"]).sum())
    name, detail = "consensus results of the present code", f"{old} rows of other code"
    yield present_code(PATH, old, detail, settings["rerun_on_code_change"], name)
