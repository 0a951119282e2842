"""Stage ``consensus_theory``: random instances of the analysed system beside their theorems."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fedscan.experiments.consensus.theory_rows import Asked, instance_row
from fedscan.experiments.consensus.theory_tables import INSTANCES, UNIT
from fedscan.io.provenance import digest, versions
from fedscan.pipeline.kept_rows import KeptRows
from fedscan.pipeline.keys import only, without
from fedscan.pipeline.stage import Job

SHARED = ("n", "m", "tokens", "starts", "points", "horizon", "step")


def run(job: Job) -> None:
    """Study every instance that is not in the table yet, and write the table.

    Args:
        job: settings: ``seed``, ``kernels``, ``anisotropies`` (of definite kernels), ``n``, ``m``,
            ``tokens``, ``instances``, ``starts``, ``points``, ``horizon``, ``step``,
            ``rerun_on_code_change`` and the ``code`` fingerprint. Its folder receives
            consensus_instances.parquet.
    """
    settings = job.settings
    torch.set_num_threads(1)
    counts, progress = settings["rerun_on_code_change"], job.scratch / "rows"
    kept = KeptRows(job.folder, [INSTANCES], UNIT, counts, job.report, progress=progress)
    units = []
    asked = list(instances(settings))
    for done, one in enumerate(asked, 1):
        unit = (one.kernel, one.anisotropy, one.index, one.silu)
        units.append(unit)
        identity = {"config_hash": digest(one._asdict()), "code_hash": settings["code"]}
        if kept.get(unit, identity) is not None:
            continue
        row = instance_row(one)
        kept.put(unit, {INSTANCES.name: [{**row, **identity}]})
        job.saved()
        silu = ", SiLU" if one.silu else ""
        title = f"{one.kernel} {one.anisotropy:g}, instance {one.index}{silu}"
        job.report(f"{title}: {row['reached']} of {row['starts']} starts reach consensus")
        job.report.advance("random instances", done, len(asked), title)
    provenance = {
        "settings": without(settings, "rerun_on_code_change"),
        "versions": versions(),
    }
    kept.write(units, provenance)


def instances(settings: Mapping[str, Any]) -> Iterator[Asked]:
    """Yield every instance that is asked for.

    Args:
        settings: as of ``run``.

    Yields:
        Per kind, anisotropy and index the one without and the one with SiLU: same weights, same
        starts.
    """
    for kernel in settings["kernels"]:
        amounts = settings["anisotropies"] if kernel == "definite" else [0.0]
        for amount in amounts:
            for index in range(settings["instances"]):
                for silu in (False, True):
                    yield Asked(
                        settings["seed"],
                        kernel,
                        float(amount),
                        index,
                        silu,
                        **only(settings, *SHARED),
                    )
