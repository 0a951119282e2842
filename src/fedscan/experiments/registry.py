"""The one list of experiments, in the order of the data; everything that looks at all reads it."""

from collections.abc import Mapping

from fedscan.experiments.bounds.experiment import BOUNDS
from fedscan.experiments.comparison.experiment import COMPARISON
from fedscan.experiments.consensus.experiment import CONSENSUS
from fedscan.experiments.corpus.experiment import CORPUS
from fedscan.experiments.merging.experiment import MERGING
from fedscan.experiments.sessa.experiment import SESSA
from fedscan.experiments.students.experiment import STUDENTS
from fedscan.experiments.teachers.experiment import TEACHERS
from fedscan.io.tables import Table
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import CHECKS, NUMBERS, VIOLATIONS

EXPERIMENTS: tuple[Experiment, ...] = (
    CORPUS,
    COMPARISON,
    TEACHERS,
    BOUNDS,
    STUDENTS,
    MERGING,
    CONSENSUS,
    SESSA,
)

# Two stages belong to no experiment.
STAGES: Mapping[str, Stage] = {
    rule: stage for experiment in EXPERIMENTS for rule, stage in experiment.stages.items()
} | {"check": Stage("fedscan.pipeline.check"), "html_report": Stage("fedscan.report.build")}


def tables() -> dict[str, Table]:
    """Return every declared table.

    Returns:
        Name -> declaration; of a table that several experiments write, with all its places, last.
    """
    shared = {table.name: table for table in (NUMBERS, VIOLATIONS, CHECKS)}
    own: dict[str, Table] = {}
    for table in (table for experiment in EXPERIMENTS for table in experiment.tables):
        if table.name in shared:
            places = (*shared[table.name].places, *table.places)
            shared[table.name] = table._replace(places=places)
        else:
            own[table.name] = table
    return own | shared
