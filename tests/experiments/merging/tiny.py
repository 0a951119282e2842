"""Merging in miniature: a base, examples and settings for every stage, seconds on one core."""

from pathlib import Path

from fedscan.experiments.merging import tasks as task_data
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline.model_files import write_base
from tests import jobs

TASKS = ["trec", "imdb"]
SHAPE = Architecture(layout(1), 16, 8, 4, 2, 8, 1, 2, 257, 8, 32)
MACHINE = {"precision": "float32", "device": "cpu", "threads": 1}
TUNING = {
    "epochs": 3, "checkpoint_epochs": [1, 3], "lr": 0.01, "adam_betas": [0.9, 0.999],
    "adam_eps": 1e-8, "weight_decay": 0.0, "clip_norm": 1.0, "warmup_share": 0.05,
    "mus": [0.0, 0.1],
}  # fmt: skip
OPERATORS = {
    "task_arithmetic": {"scales": [0.5, 1.0]},
    "ties": {"scales": [1.0], "densities": [0.2]},
}
CODE = {"rerun_on_code_change": True, "code": "0123456789abcdef"}


def data_settings(task, split, seed, **changes):
    return {
        "task": task, "split": split, "seed": seed, "cap": 24, "source": "synthetic",
        "own": {"train_pool": 60, "evaluation_pool": 40}, "max_tokens": 64, "reserved_tokens": 36,
        "tokenizer": {"name": "bytes"},
    } | changes  # fmt: skip


def tuning_settings(task, seed=0, **tuning):
    machine = MACHINE | {k: tuning.pop(k) for k in ("precision",) if k in tuning}
    fine_tuning = TUNING | tuning
    return (
        {"task": task, "seed": seed, "batch_size": 8, "fine_tuning": fine_tuning} | machine | CODE
    )


def accuracy_settings(**changes):
    return {
        "base": "tiny", "tasks": TASKS, "seeds": [0], "mus": TUNING["mus"],
        "checkpoint_epochs": TUNING["checkpoint_epochs"], "evaluation_batch_size": 7,
    } | MACHINE | CODE | changes  # fmt: skip


def merge_settings(**changes):
    settings = accuracy_settings() | {"seed": 0, "operators": OPERATORS, "gradient_examples": 10}
    del settings["seeds"]
    return settings | changes


def prepare(root, seed=0):
    """A base and all examples below ``root``, laid out as results/merging."""
    write_base(Path(root, "bases/base=tiny"), SHAPE, parameters())
    for task in TASKS:
        for subset, split, own in (
            ("evaluation", "evaluation", 99991),
            (f"train_{seed}", "train", seed),
        ):
            folder = f"{root}/tasks/task={task}/subset={subset}"
            jobs.run(task_data, data_settings(task, split, own), folder)


def parameters():
    return {name: t.detach() for name, t in initialise(SHAPE, 0).named_parameters()}


def specialist_folder(root, task, seed=0):
    return f"{root}/specialists/base=tiny/task={task}/seed={seed}"


def tune(root, task, specialists, **tuning):
    """Run the stage as the rule does."""
    jobs.run(
        specialists,
        tuning_settings(task, **tuning),
        specialist_folder(root, task),
        scratch=f"{root}/checkpoints/{task}",
        model=f"{root}/bases/base=tiny/model.safetensors",
        examples=f"{root}/tasks/task={task}/subset=train_0/examples.parquet",
    )
