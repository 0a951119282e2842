"""The room in miniature: a configuration, and stages run on it as rules run them."""

import functools
import importlib
import shutil
from pathlib import Path

from fedscan.config import files as config_files
from fedscan.experiments.sessa import grid, plan
from tests import jobs

TINY = {
    "models": {"mixers": ["sessa", "mha"], "d_model": 16, "depth": 1, "match_tolerance": 0.2},
    "tasks": {
        "soup": {"train": 48, "validation": 8, "test": 16, "min_tokens": 43, "max_tokens": 53},
        "mqar": {"train": 40, "validation": 8, "test": 10, "test_factors": [1, 2]},
        "stories": {"train": 24, "validation": 6, "test": 6, "sequence_length": 24},
        "recall": {"train": 24, "validation": 6, "test": 6, "sequence_length": 16,
                   "vocabulary": 16, "pairs": [2, 3], "widths": [8, 16]},
    },
    "training": {"steps": {"soup": 6, "mqar": 6, "stories": 4, "recall": 4}, "batch_size": 8,
                 "lrs": [0.003, 0.01], "validate_every": 3},
    "federated": {"mixers": ["sessa", "mha"], "clients": 2, "rounds": 2, "local_steps": 2,
                  "gain_limits": [None, 0.5]},
    "diagnostics": {"sequences": 10, "lags": 16},
}  # fmt: skip
CODE = "0123456789abcdef"
ROOM = "fedscan.experiments.sessa"


def merged(first, then):
    inner = {k for k, v in then.items() if isinstance(v, dict) and isinstance(first.get(k), dict)}
    both = {k: merged(first[k], then[k]) for k in inner}
    return {**first, **then, **both}


@functools.cache
def _config():
    return config_files.load(["config/config.yaml"], []).model_dump(mode="json")


def config(**changes):
    whole = _config()
    return {**whole, "sessa": merged(merged(whole["sessa"], TINY), changes)}


def stage(name):
    return importlib.import_module(f"{ROOM}.{name}")


def run(name, settings, folder, results, report=jobs.silent, **inputs):
    jobs.run(
        stage(name), {**settings, "code": CODE}, folder, results=results,
        scratch=Path(results, "unfinished", Path(folder).relative_to(results)), report=report,
        **inputs,
    )  # fmt: skip


def data(results, task, **changes):
    folder = f"{results}/sessa/data/task={task}"
    run("data", plan.sessa_data(config(**changes), task), folder, results)
    return f"{folder}/sessa_examples.parquet"


def training(results, task, mixer, report=jobs.silent, **changes):
    folder = f"{results}/sessa/training/task={task}/mixer={mixer}"
    examples = f"{results}/sessa/data/task={task}/sessa_examples.parquet"
    settings = plan.sessa_training(config(**changes), task, mixer)
    run("training", settings, folder, results, report, examples=examples)
    return Path(folder)


def diagnostics(results, task, mixer, report=jobs.silent, **changes):
    folder = f"{results}/sessa/diagnostics/task={task}/mixer={mixer}"
    examples = f"{results}/sessa/data/task={task}/sessa_examples.parquet"
    runs = f"{results}/sessa/training/task={task}/mixer={mixer}/sessa_runs.parquet"
    settings = plan.sessa_diagnostics(config(**changes), task, mixer)
    run("diagnostics", settings, folder, results, report, examples=examples, runs=runs)
    return Path(folder)


def federated(results, mixer, algorithm="fedavg", task="soup", report=jobs.silent, **changes):
    folder = f"{results}/sessa/federated/task={task}/mixer={mixer}/algorithm={algorithm}"
    examples = f"{results}/sessa/data/task={task}/sessa_examples.parquet"
    settings = plan.sessa_federated(config(**changes), task, mixer, algorithm)
    run("federated", settings, folder, results, report, examples=examples)
    return Path(folder)


def theory(results, report=jobs.silent, **changes):
    folder = f"{results}/sessa/theory"
    run("theory_study", plan.sessa_theory(config(**changes)), folder, results, report)
    return Path(folder)


def everything(results):
    """All stages but the summary."""
    section = config()["sessa"]
    for task in grid.tasks(section):
        data(results, task)
        for mixer in section["models"]["mixers"]:
            training(results, task, mixer)
            if task in section["diagnostics"]["tasks"]:
                diagnostics(results, task, mixer)
    for mixer in section["federated"]["mixers"]:
        federated(results, mixer)
    theory(results)


def bytes_of(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def copied(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy"))
