"""What a stage sees of the job that runs it. Types only: they are in every stage's fingerprint."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Log(Protocol):
    """A job's log."""

    def __call__(self, text: str) -> None:
        """Write one line."""
        ...

    def advance(self, title: str, done: int, total: int, status: str) -> None:
        """Show ``done`` of ``total`` with a short status, where somebody watches."""
        ...


class Job(NamedTuple):
    """One call of a stage.

    Attributes:
        settings: what the rule tracks, parsed: exactly the keys the stage uses.
        inputs: a rule's named input -> its file or, of several files, the folder of the first.
        results: folder of all results.
        folder: receives the outputs.
        scratch: holds what is unfinished while the job runs.
        report: the job's log.
        saved: to be called where everything done so far is on disk; does not return after SIGTERM.
    """

    settings: Mapping[str, Any]
    inputs: Mapping[str, Path]
    results: Path
    folder: Path
    scratch: Path
    report: Log
    saved: Callable[[], None]


class Stage(NamedTuple):
    """How a rule's jobs are run.

    Attributes:
        module: dotted name; it has ``run(job: Job) -> None``. Text, so that planning imports
            nothing.
        device: key of the configuration that may ask for a GPU: a place on one is then held.
        resumes: whether it adds to tables that are there: inputs dated in the future are refused.
    """

    module: str
    device: str | None = None
    resumes: bool = False
