"""Settings and files of the stages on Sessa. No torch: the Snakefile reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.sessa import grid
from fedscan.experiments.sessa.tables import DIAGNOSTIC_TABLES, FEDERATED_TABLES, TRAINING_TABLES
from fedscan.io.provenance import code_fingerprint, data_fingerprint
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only, without

ROOM = "fedscan.experiments.sessa"
# Of section ``training``: what federated runs share with central ones.
SHARED = ("batch_size", "adam_betas", "adam_eps", "weight_decay", "clip_norm", "eval_batch_size")
MACHINE = ("precision", "device", "threads")
# Rules that the summary is made from.
PARTS = ("sessa_data", "sessa_training", "sessa_diagnostics", "sessa_federated", "sessa_theory")


def _rerun(config: Config) -> dict[str, Any]:
    return only(config["workflow"], "rerun_on_code_change")


def data_files(config: Config, task: str) -> list[str]:
    """Return what a task's data are made from.

    Args:
        config: the whole configuration.
        task: its name.

    Returns:
        The user's files with stories; none for other sources.
    """
    section = config["sessa"]["tasks"][task]
    if section.get("source") != "local":
        return []
    return [str(Path(section["local"][split]).expanduser()) for split in ("train", "test")]


def sessa_data(config: Config, task: str) -> dict[str, Any]:
    """Return the settings of stage ``sessa_data``.

    Args:
        config: the whole configuration.
        task: its name.

    Returns:
        What it uses.
    """
    sessa = config["sessa"]
    section = {k: v for k, v in sessa["tasks"][task].items() if k != "widths"}
    others = {"local", "huggingface"} - {section.get("source")}
    section = {k: v for k, v in section.items() if k not in others}
    return {"task": task, "seed": sessa["seed"], "section": section}


def _shapes(config: Config, task: str, mixer: str) -> dict[str, Any]:
    sessa = config["sessa"]
    return {
        str(width): list(grid.shape(sessa, task, mixer, width))
        for width in grid.widths(sessa, task)
    }


def sessa_training(config: Config, task: str, mixer: str) -> dict[str, Any]:
    """Return the settings of stage ``sessa_training``.

    Args:
        config: the whole configuration.
        task: its name.
        mixer: kind of layer.

    Returns:
        What it uses.
    """
    sessa = config["sessa"]
    training = sessa["training"]
    return {
        "task": task,
        "mixer": mixer,
        "shapes": _shapes(config, task, mixer),
        "units": [list(unit) for unit in grid.units(sessa, task)],
        "steps": training["steps"][task],
        "training": {k: v for k, v in training.items() if k not in ("steps", "lrs", "seeds")},
        **_rerun(config),
    }


def sessa_diagnostics(config: Config, task: str, mixer: str) -> dict[str, Any]:
    """Return the settings of stage ``sessa_diagnostics``.

    Args:
        config: the whole configuration.
        task: its name.
        mixer: kind of layer.

    Returns:
        What it uses.
    """
    sessa = config["sessa"]
    width = grid.widths(sessa, task)[-1]
    return {
        "task": task,
        "mixer": mixer,
        "width": width,
        "shape": list(grid.shape(sessa, task, mixer, width)),
        "lrs": sessa["training"]["lrs"],
        "seeds": sessa["training"]["seeds"],
        **without(sessa["diagnostics"], "tasks"),
        **only(sessa["training"], "eval_batch_size", *MACHINE),
        **_rerun(config),
    }


def sessa_federated(config: Config, task: str, mixer: str, algorithm: str) -> dict[str, Any]:
    """Return the settings of stage ``sessa_federated``.

    Args:
        config: the whole configuration.
        task: its name.
        mixer: kind of layer.
        algorithm: its name.

    Returns:
        What it uses.
    """
    sessa = config["sessa"]
    federated = sessa["federated"]
    width = grid.widths(sessa, task)[-1]
    return {
        "task": task,
        "mixer": mixer,
        "algorithm": algorithm,
        "shape": list(grid.shape(sessa, task, mixer, width)),
        "units": [
            [list(unit), dict(pairs)] for unit, pairs in grid.federated_units(federated, algorithm)
        ],
        **only(federated, "clients", "rounds", "local_steps", "lr"),
        "training": only(sessa["training"], *SHARED, *MACHINE),
        **_rerun(config),
    }


def federated_choices(algorithm: str) -> dict[str, str]:
    """Return which algorithm counts in the fingerprint of a federated job.

    Args:
        algorithm: registry name.

    Returns:
        Registry package -> member.
    """
    return {"fedscan.federated.algorithms": algorithm}


def sessa_theory(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``sessa_theory``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {"seed": config["sessa"]["seed"], **config["sessa"]["theory"], **_rerun(config)}


def sessa_speed(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``sessa_speed``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    sessa = config["sessa"]
    task = grid.tasks(sessa)[0]
    width = grid.widths(sessa, task)[-1]
    return {
        "shapes": {
            mixer: list(grid.shape(sessa, task, mixer, width))
            for mixer in sessa["models"]["mixers"]
        },
        **sessa["speed"],
        **only(sessa["training"], "device", "threads"),
    }


def sessa(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``sessa``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    section = config["sessa"]
    names = grid.tasks(section)
    return {
        "mixers": section["models"]["mixers"],
        "tasks": {name: section["tasks"][name] for name in names},
        "models": section["models"],
        **only(section, "training", "federated", "theory"),
        "diagnosed": section["diagnostics"]["tasks"],
        # Data that no fingerprint of code covers.
        "published": data_fingerprint(f"{ROOM}.published"),
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    section, root = config["sessa"], "sessa"
    names, mixers = grid.tasks(section), section["models"]["mixers"]
    pairs = [f"task={task}/mixer={mixer}" for task in names for mixer in mixers]
    federated = section["federated"]
    jobs = [] if federated is None else [
        f"task={task}/mixer={mixer}/algorithm={algorithm}"
        for task in federated["tasks"]
        for mixer in federated["mixers"]
        for algorithm in federated["algorithms"]
    ]  # fmt: skip
    found: dict[str, dict[str, tuple[str, ...]]] = {
        "sessa_data": {f"{root}/data/task={task}": ("sessa_examples",) for task in names},
        "sessa_training": {f"{root}/training/{p}": _names(TRAINING_TABLES) for p in pairs},
        "sessa_diagnostics": {
            f"{root}/diagnostics/task={task}/mixer={mixer}": _names(DIAGNOSTIC_TABLES)
            for task in section["diagnostics"]["tasks"]
            for mixer in mixers
        },
        "sessa_federated": {f"{root}/federated/{job}": _names(FEDERATED_TABLES) for job in jobs},
        "sessa_theory": {f"{root}/theory": ("sessa_claims", "sessa_retrieval")},
        "sessa": {f"{root}/tables": ("numbers",)},
    }
    return {
        rule: {job: [f"{job}/{name}.parquet" for name in tables] for job, tables in jobs_.items()}
        for rule, jobs_ in found.items()
    }


def _names(tables: Any) -> tuple[str, ...]:
    return tuple(table.name for table in tables)


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Tasks, models, central and federated runs.
    """
    section = config["sessa"]
    names, mixers = grid.tasks(section), section["models"]["mixers"]
    counted = {
        "tasks": len(names),
        "mixers": len(mixers),
        "central runs": len(mixers) * sum(len(grid.units(section, name)) for name in names),
    }
    federated = section["federated"]
    if federated is not None:
        runs = sum(len(grid.federated_units(federated, a)) for a in federated["algorithms"])
        counted["federated runs"] = runs * len(federated["tasks"]) * len(federated["mixers"])
    return counted


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the checks on Sessa.

    Args:
        config: the whole configuration.

    Returns:
        What was asked for, and the fingerprint per stage.
    """
    section = config["sessa"]
    federated = section["federated"]
    names = grid.tasks(section)
    stages = {"training": "training", "diagnostics": "diagnostics", "theory": "theory_study"}
    algorithms = [] if federated is None else federated["algorithms"]
    return {
        "mixers": section["models"]["mixers"],
        "tasks": {
            name: {
                "section": section["tasks"][name],
                "units": [list(unit) for unit in grid.units(section, name)],
                "steps": section["training"]["steps"][name],
            }
            for name in names
        },
        "seeds": section["training"]["seeds"],
        "diagnosed": section["diagnostics"]["tasks"],
        "retrieval": section["theory"]["retrieval"],
        "federated": federated,
        "federated_units": {
            a: [list(unit) for unit, _ in grid.federated_units(federated, a)] for a in algorithms
        },
        "codes": {name: code_fingerprint(f"{ROOM}.{module}") for name, module in stages.items()},
        "federated_codes": {
            a: code_fingerprint(f"{ROOM}.federated", choices=federated_choices(a))
            for a in algorithms
        },
        **_rerun(config),
    }
