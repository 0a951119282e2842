"""Stage ``sessa_theory``: what the paper claims, on random instances and constructed layers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fedscan.experiments.sessa import (
    claims_depth,
    claims_fixed,
    claims_jacobian,
    claims_positions,
    claims_retrieval,
)
from fedscan.experiments.sessa.claim import Claim
from fedscan.experiments.sessa.theory_tables import CLAIMS, RETRIEVAL
from fedscan.io.provenance import digest, versions
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.stage import Job

Settings = Mapping[str, Any]
# Group -> its claims, and what of the settings they depend on.
GROUPS: dict[str, tuple[Callable[[Settings], Iterator[Claim]], tuple[str, ...]]] = {
    "fixed routing": (
        lambda s: claims_fixed.claims(s["seed"], s["logit_spreads"], s["gains"]),
        ("seed", "logit_spreads", "gains"),
    ),
    "end to end": (
        lambda s: claims_jacobian.claims(s["seed"], s["gains"]),
        ("seed", "gains"),
    ),
    "depth": (lambda s: claims_depth.claims(s["seed"]), ("seed",)),
    "positions": (
        lambda s: claims_positions.claims(s["seed"], tuple(s["gains"])),
        ("seed", "gains"),
    ),
    "retrieval": (
        lambda s: claims_retrieval.claims(s["seed"], s["retrieval"]),
        ("seed", "retrieval"),
    ),
}


def run(job: Job) -> None:
    """Compute every group that is not in the tables yet, and write the tables.

    Args:
        job: settings: ``seed``, ``logit_spreads``, ``gains``, ``retrieval`` (pairs of beta and k),
            ``rerun_on_code_change`` and the ``code`` fingerprint. Its folder receives
            sessa_claims.parquet and sessa_retrieval.parquet.
    """
    settings = job.settings
    torch.set_num_threads(1)
    # A group may have no retrieval: its claims say that it is there.
    kept = KeptRows(
        job.folder, (CLAIMS, RETRIEVAL), ("group",), settings["rerun_on_code_change"], job.report,
        lambda rows: bool(rows[CLAIMS.name]), job.scratch,
    )  # fmt: skip
    for group, (claims, used) in GROUPS.items():
        identity = {"config_hash": digest(only(settings, *used)), "code_hash": settings["code"]}
        if kept.get((group,), identity) is not None:
            continue
        rows = [{"group": group, **claim.row(), **identity} for claim in claims(settings)]
        retrieval = claims_retrieval.retrieval_rows(settings["retrieval"])
        found = [{"group": group, **row} for row in retrieval] if group == "retrieval" else []
        kept.put((group,), {CLAIMS.name: rows, RETRIEVAL.name: found})
        broken = sum(row["violated"] for row in rows)
        job.report(f"{group}: {len(rows)} instances, {broken} violated")
        job.saved()
    provenance = {"settings": without(settings, "rerun_on_code_change"), "versions": versions()}
    kept.write([(group,) for group in GROUPS], provenance)
