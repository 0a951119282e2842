"""Which files a configuration ends in, per rule, without building Snakemake's graph."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import grid
from fedscan.experiments.merging import grid as merging_grid
from fedscan.experiments.students import grid as student_grid

JOB_TABLES = ("runs", "rounds", "clients", "mixers", "heads")


def expected_files(config: Mapping[str, Any], results: str) -> dict[str, dict[str, list[Path]]]:
    """List the tables every rule's jobs write.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of all results.

    Returns:
        Rule -> job, named by its folder below ``results`` -> its tables.
    """
    root, runs = Path(results), grid.runs(config["studies"])
    settings = config["partition"]["settings"]
    domains = sorted({d for run in runs for d in settings[run.job.setting]})
    partitions = {
        f"partition/{grid.partition_path(r.job.setting, r.job.beta, r.job.clients)}" for r in runs
    }
    synthetic = config["synthetic"]
    shapes = [f"D={d}/N={n}" for d in synthetic["d_input"] for n in synthetic["d_state"]]
    cells = [student_grid.cell_path(c) for c in student_grid.student_runs(synthetic)]
    names: dict[str, dict[str, list[str]]] = {
        "tokens": {"tokens": [f"domain={d}/{s}" for d in domains for s in ("train", "validation")]},
        "partition": {p: ["partition", "train", "validation"] for p in sorted(partitions)},
        "federated": {f"federated/{path}": list(JOB_TABLES) for path in grid.jobs(runs)},
        "teachers": {f"teachers/{s}": ["teachers", "teacher_sequences"] for s in shapes},
        "learners": {f"learners/{s}": ["learners"] for s in shapes},
        "evaluation": {f"evaluation/{s}": ["points", "curvature", "trajectories"] for s in shapes},
        "stacks": {"stacks": ["stacks"]},
        "students": {f"students/{c}": ["student_runs", "student_rounds"] for c in cells},
        **_merging(config["merging"]),
        "bounds": {"bounds": ["numbers"]},
        "student_tables": {"student_tables": ["numbers"]},
        "compare": {"compare": ["all_runs", "all_rounds", "comparison", "numbers"]},
        "practice": {"practice": ["quantities", "numbers"]},
        "merging": {"merging/tables": ["all_merges", "all_specialist_accuracy", "numbers"]},
        "check": {"check": ["checks"]},
    }
    found = {
        rule: {
            job: [root / job / f"{table}.parquet" for table in tables]
            for job, tables in jobs.items()
        }
        for rule, jobs in names.items()
    }
    return {**found, "html_report": {"report": [root / "report/index.html"]}}


def _merging(section: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    bases = [name for name, base in section["bases"].items() if base is not None]
    subsets = [merging_grid.subset(seed) for seed in (None, *section["seeds"])]
    pairs = [(base, seed) for base in bases for seed in section["seeds"]]
    merges = ["merges", "displacements", "task_vectors"]
    return {
        "task_data": {
            f"merging/tasks/task={task}/subset={subset}": ["examples", "labels"]
            for task in section["tasks"]
            for subset in subsets
        },
        "merging_base": {f"merging/bases/base={base}": ["base"] for base in bases},
        "specialists": {
            f"merging/specialists/base={base}/task={task}/seed={seed}": ["specialists"]
            for base, seed in pairs
            for task in section["tasks"]
        },
        "specialist_accuracy": {
            f"merging/accuracy/base={base}": ["specialist_accuracy"] for base in bases
        },
        "merges": {f"merging/merges/base={base}/seed={seed}": merges for base, seed in pairs},
    }
