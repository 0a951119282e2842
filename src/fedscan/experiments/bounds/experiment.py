"""The bounds: closed forms against gradients and curvature measured on the teachers' datasets."""

from fedscan.experiments.bounds import config, evaluation_tables, plan, tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS, VIOLATIONS

ROOM = "fedscan.experiments.bounds"

BOUNDS = Experiment(
    name="bounds",
    title="Bounds against measurements",
    sections={
        "synthetic.learners": config.Learners,
        "synthetic.evaluation": config.Evaluation,
        "synthetic.stacks": config.Stacks,
    },
    rules=config.rules,
    stages={
        "learners": Stage(f"{ROOM}.learners", resumes=True),
        "evaluation": Stage(f"{ROOM}.evaluation", device="synthetic.evaluation.kernels"),
        "stacks": Stage(f"{ROOM}.stacks"),
        "bounds": Stage(f"{ROOM}.summary"),
    },
    targets=("bounds",),
    tables=(
        tables.LEARNERS,
        tables.CHECKPOINTS,
        evaluation_tables.POINTS,
        evaluation_tables.GRADIENTS,
        evaluation_tables.CURVATURE,
        evaluation_tables.TRAJECTORIES,
        evaluation_tables.STACKS,
        NUMBERS._replace(places=("bounds/numbers",)),
        VIOLATIONS._replace(places=("evaluation/D=*/N=*/violations", "stacks/violations")),
    ),
    files=plan.files,
    units=plan.units,
    results=("bounds",),
    summaries=("bounds/summary.txt",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("learners", "evaluation", "stacks"),
    page=f"{ROOM}.page",
    reruns=(("bounds against measurements", "bounds", "teachers, learners, evaluations, stacks"),),
)
