"""Stages called as the pipeline calls them."""

from pathlib import Path

from fedscan.io import checkpoints
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


class Killed(BaseException):
    """What a job that is killed meets."""


def killed_after_every_write(monkeypatch, run):
    """Call ``run`` until it ends, killed after its first write of a checkpoint, its second, ...

    Returns:
        What it returned in the end, and how often it was killed.
    """
    real, kills = checkpoints.save, 0
    while True:
        writes = iter(range(kills, -1, -1))

        def save(*args, writes=writes, **kwargs):
            real(*args, **kwargs)
            if not next(writes, 1):
                raise Killed

        monkeypatch.setattr(checkpoints, "save", save)
        try:
            return run(), kills
        except Killed:
            kills += 1
