"""Stage ``check``: the workflow's own results against what must hold; a table of outcomes.

What must hold is said by the experiments: their modules come with the settings.
"""

import importlib

from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.pipeline.checks import Check
from fedscan.pipeline.stage import Job
from fedscan.pipeline.tables import CHECKS


def run(job: Job) -> None:
    """Check every experiment's results, and write the outcomes.

    Args:
        job: settings: ``experiments``, rows of module and its settings; a module has
            ``checks(settings, results)``. Its folder receives checks.parquet.

    Raises:
        ValueError: if a check failed; the table is then checks.failed.parquet.
    """
    checks: list[Check] = []
    for module, settings in job.settings["experiments"]:
        checks += importlib.import_module(module).checks(settings, job.results)
    failed = [check for check in checks if not check.passed]
    target = job.folder / ("checks.failed.parquet" if failed else "checks.parquet")
    provenance = {"settings": job.settings, "versions": versions()}
    parquet.write(target, CHECKS, [check._asdict() for check in checks], provenance)
    for check in checks:
        word = "ok  " if check.passed else "FAIL"
        job.report(f"{word} {check.check}: {check.subject}: {check.detail}")
    if failed:
        first = failed[0]
        raise ValueError(
            f"{len(failed)} of {len(checks)} checks failed; first: {first.check}: {first.subject}:"
            f" {first.detail}; all in {target}"
        )
