"""What an experiment offers to the whole: a record per room, listed in experiments.registry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedscan.config.types import Problem
from fedscan.io.tables import Table
from fedscan.pipeline.stage import Stage

Config = Mapping[str, Any]
# Rule -> job, named by its folder below results/ -> its files, below results/.
Files = Mapping[str, Mapping[str, Sequence[str]]]


class Preview(NamedTuple):
    """How a stage is run on results that are not complete.

    Attributes:
        settings: configuration -> settings of the stage.
        folder: of its outputs, below the preview's folder.
        inputs: named input -> folder below the preview's.
    """

    settings: Callable[[Config], Mapping[str, Any]]
    folder: str
    inputs: Mapping[str, str] = {}


def no_rules(_config: Any) -> Iterator[Problem]:
    """Yield nothing: any values that are valid one by one are valid together."""
    return iter(())


def no_units(_config: Config) -> dict[str, int]:
    """Return nothing to count."""
    return {}


def no_listing(_config: Config) -> Iterator[tuple[str, ...]]:
    """Yield nothing to list."""
    return iter(())


class Experiment(NamedTuple):
    """One experiment.

    Attributes:
        name: folder, rules file, word on the command line.
        title: what a reader calls it.
        sections: dotted place in the configuration -> its section, or (type, field).
        rules: what must hold between keys; gets the whole typed configuration.
        stages: rule -> stage, in the order of the data.
        targets: rules whose output ``rule all`` asks for.
        tables: what its stages write.
        files: rule -> job -> files that say the job is done.
        units: what ``fedscan grid`` counts, e.g. {"teachers": 72}.
        breakdown: a table for ``fedscan grid``: its head, then its rows.
        listing: what ``fedscan grid --runs`` lists: (folder, name, studies).
        results: folders below results/ that hold ``numbers.parquet`` for the page.
        summaries: texts below results/ that are printed when a run ends.
        checks: module with ``checks(settings, results)``, imported by rule ``check``.
        checked: configuration -> those settings.
        verified: rules whose files ``check`` reads.
        page: module with ``cards(numbers)`` and ``tables(results)``; ``page.yaml`` lies beside it.
        previews: rule -> how ``fedscan preview`` runs it on what is there.
        trained: rule whose checkpoints and logs ``fedscan status`` follows.
        progress: module with ``UNIT``, ``counts(config, results)`` and ``seconds_left(...)``.
        cost: module with ``missing(config, results)`` and ``cost(config, results, cores)``.
        reruns: (what a person asks for, target, what it needs), for the page.
    """

    name: str
    title: str
    sections: Mapping[str, Any]
    stages: Mapping[str, Stage]
    targets: Sequence[str]
    tables: Sequence[Table]
    files: Callable[[Config], Files]
    rules: Callable[[Any], Iterator[Problem]] = no_rules
    units: Callable[[Config], Mapping[str, int]] = no_units
    breakdown: Callable[[Config], Sequence[Sequence[str]]] | None = None
    listing: Callable[[Config], Iterator[tuple[str, ...]]] = no_listing
    results: Sequence[str] = ()
    summaries: Sequence[str] = ()
    checks: str | None = None
    checked: Callable[[Config], Mapping[str, Any]] | None = None
    verified: Sequence[str] = ()
    page: str | None = None
    previews: Mapping[str, Preview] = {}
    trained: str | None = None
    progress: str | None = None
    cost: str | None = None
    reruns: Sequence[tuple[str, str, str]] = ()
