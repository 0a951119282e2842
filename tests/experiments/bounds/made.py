"""Teachers, learners, evaluations and stacks in miniature."""

from pathlib import Path

from fedscan.experiments.bounds import evaluation, learners
from fedscan.experiments.registry import tables
from fedscan.experiments.teachers import teachers
from fedscan.models.selective_ssm.layout import Shape
from tests import jobs

TABLES = tables()


SHAPE = Shape(4, 4)


PATH = "D=4/N=4"


RHOS = [0.5, 0.95]


LEARNERS = {
    "seeds": [0, 1],
    "lr": 0.05,
    "batch_size": 32,
    "updates": 20,
    "checkpoint_every": 10,
    "bound_checkpoints": [0, 10, 20],
}


SMOOTHNESS = {"kernels": "cpu", "sequences": 4, "iterations": 15, "tolerance": 1e-9, "step": 1e-3}


STACKS = {
    "d_input": 4,
    "d_state": 4,
    "depths": [1, 2],
    "rhos": [0.5],
    "scales": [0.3],
    "points": 1,
    "sequences": 2,
    "length": 6,
    "updates": 2,
}


SHARED = {"d_input": 4, "d_state": 4, "sequence_length": 32}


def make_teachers(folder):
    sizes = {"train_sequences": 256, "test_sequences": 64, "burn_in": 8}
    jobs.run(teachers, SHARED | sizes | {"rhos": RHOS, "code": "c"}, folder)


def train(results, values=None, code="c", rerun=True, folder="learners"):
    settings = SHARED | {"learners": LEARNERS | (values or {}), "code": code}
    settings["rerun_on_code_change"] = rerun
    jobs.run(learners, settings, f"{results}/{folder}/{PATH}",
             scratch=f"{results}/checkpoints/{PATH}",
             teachers=f"{results}/teachers/{PATH}")  # fmt: skip


def evaluate(results):
    settings = SHARED | {"learners": LEARNERS, "evaluation": SMOOTHNESS}
    inputs = {name: f"{results}/{name}/{PATH}" for name in ("teachers", "learners")}
    jobs.run(evaluation, settings, f"{results}/evaluation/{PATH}", **inputs)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*.parquet")}


CHECK = {
    "shapes": [[4, 4]],
    "rhos": RHOS,
    "sequence_length": 32,
    "seeds": [0, 1],
    "bound_checkpoints": [0, 10, 20],
    "learner_code": "c",
    "rerun_on_code_change": True,
}
