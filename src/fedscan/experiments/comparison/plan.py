"""Settings and files of the comparison's stages. No torch: the Snakefile reads it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.declared import shown
from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.paper import compared_settings
from fedscan.experiments.comparison.tables import JOB_TABLES
from fedscan.io.provenance import code_fingerprint, data_fingerprint
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only
from fedscan.report.contents import figures

ROOM = "fedscan.experiments.comparison"
# Figure -> key of section ``analysis`` that names its study; drawn only if it names one.
OPTIONAL_FIGURES = {"client_count": "client_count", "backbones": "backbone"}


def federated(config: Config, runs: Sequence[grid.Run]) -> dict[str, Any]:
    """Return the settings of a training job.

    Args:
        config: the whole configuration.
        runs: its runs, one per value.

    Returns:
        What it uses.
    """
    return {
        "job": runs[0].job._asdict(),
        "values": [dict(run.hyperparameters) for run in runs],
        "training": config["training"],
        "model": config["model"],
        "data_source": config["data"]["source"],
        "tokenizer": config["tokenizer"]["name"],
        **only(config["workflow"], "rerun_on_code_change", "keep_final_model", "keep_model_rounds"),
    }


def federated_choices(runs: Sequence[grid.Run]) -> dict[str, str | Sequence[str]]:
    """Return which algorithm and kinds of layers count in the fingerprint of a training job.

    Args:
        runs: its runs, one per value.

    Returns:
        Registry package -> members.
    """
    return {
        "fedscan.federated.algorithms": runs[0].job.algorithm,
        grid.MIXERS: grid.kinds(runs),
    }


def missing_tables(jobs: Mapping[str, object]) -> list[str]:
    """Return the tables that are missing beside a job's first, which is written last.

    Args:
        jobs: by folder below results/federated.

    Returns:
        Paths of the files.
    """
    first, *others = (f"{table.name}.parquet" for table in JOB_TABLES)
    folders = [Path("results/federated", path) for path in jobs]
    return [
        str(folder / name)
        for folder in folders
        if (folder / first).exists()
        for name in others
        if not (folder / name).exists()
    ]


def compare(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``compare``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {
        **only(config, "studies", "analysis", "training", "model"),
        "paper": compared_settings(config),
        # Data that no fingerprint of code covers.
        "published": data_fingerprint(f"{ROOM}.published"),
        "declared": shown(),
    }


def compare_figures(config: Config) -> list[str]:
    """Return the figures of stage ``compare``.

    Args:
        config: the whole configuration.

    Returns:
        File stems.
    """
    roles = config["analysis"]
    return [
        name
        for name in figures(ROOM, "compare")
        if name not in OPTIONAL_FIGURES or roles[OPTIONAL_FIGURES[name]] is not None
    ]


def practice(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``practice``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {**only(config, "studies", "analysis"), "declared": shown()}


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    compared, practised = (
        ("all_runs", "all_rounds", "comparison", "numbers"),
        ("quantities", "numbers"),
    )
    return {
        "federated": {
            f"federated/{path}": [f"federated/{path}/{t.name}.parquet" for t in JOB_TABLES]
            for path in grid.jobs(grid.runs(config["studies"]))
        },
        "compare": {"compare": [f"compare/{name}.parquet" for name in compared]},
        "practice": {"practice": [f"practice/{name}.parquet" for name in practised]},
    }


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Jobs and runs of training.
    """
    runs = grid.runs(config["studies"])
    return {"training jobs": len({run.job for run in runs}), "training runs": len(runs)}


def breakdown(config: Config) -> list[list[str]]:
    """Count jobs, values and runs per algorithm.

    Args:
        config: the whole configuration.

    Returns:
        Head and rows of a table.
    """
    runs = grid.runs(config["studies"])
    found = [["algorithm", "jobs", "values", "runs"]]
    for name in sorted({run.job.algorithm for run in runs}):
        mine = [run for run in runs if run.job.algorithm == name]
        counts = (len({r.job for r in mine}), len({r.value for r in mine}), len(mine))
        found.append([name, *map(str, counts)])
    return [*found, ["all", str(len({r.job for r in runs})), "", str(len(runs))]]


def listing(config: Config) -> Any:
    """List every training run.

    Args:
        config: the whole configuration.

    Yields:
        Folder, value, studies.
    """
    for run in grid.runs(config["studies"]):
        yield grid.job_path(run.job), run.value, ",".join(run.studies)


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the comparison's checks.

    Args:
        config: the whole configuration.

    Returns:
        Sections, and the fingerprint of each algorithm's training.
    """
    # Jobs of an algorithm and of the same kinds of layers are made by the same code.
    makers: dict[str, dict[str, Any]] = {}
    for members in grid.jobs(grid.runs(config["studies"])).values():
        own = makers.setdefault(members[0].job.algorithm, {})
        own.setdefault(grid.kinds_name(members), federated_choices(members))
    return {
        **only(config, "studies", "training", "model"),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
        "training_code": {
            algorithm: {
                kinds: code_fingerprint(f"{ROOM}.training", choices=choices)
                for kinds, choices in sorted(own.items())
            }
            for algorithm, own in sorted(makers.items())
        },
    }
