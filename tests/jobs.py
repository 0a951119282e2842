"""Stages called as the pipeline calls them."""

from pathlib import Path

from fedscan.pipeline.preemption import stop_if_asked
from fedscan.pipeline.stage import Job


def silent(*args):
    """Report nothing."""


silent.advance = lambda *args: None


def run(stage, settings, folder, *, results=".", scratch=None, report=silent, **inputs):
    """Run a stage's module: settings, folder of its outputs, inputs by name."""
    if not hasattr(report, "advance"):
        lines = report

        def report(text):
            lines(text)

        report.advance = lambda *args: None
    places = {name: Path(place) for name, place in inputs.items()}
    scratch = Path(scratch) if scratch is not None else Path(folder, "unfinished")
    job = Job(settings, places, Path(results), Path(folder), scratch, report, stop_if_asked)
    return stage.run(job)
