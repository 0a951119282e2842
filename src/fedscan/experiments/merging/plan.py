"""Settings and files of merging's stages. No torch: the Snakefile reads it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.data.tasks.definition import definitions
from fedscan.experiments.comparison import grid as runs_grid
from fedscan.experiments.merging import grid
from fedscan.io.provenance import code_fingerprint, data_fingerprint
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import chosen, only

ROOM = "fedscan.experiments.merging"
CHECKPOINT_FILES = ("config.json", "*.safetensors", "*.index.json", "*.bin")


def bases(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return the bases that are switched on.

    Args:
        config: the whole configuration.

    Returns:
        Name -> its section.
    """
    return {name: base for name, base in config["merging"]["bases"].items() if base is not None}


def subsets(config: Config) -> dict[str, int | None]:
    """Return the choices of examples.

    Args:
        config: the whole configuration.

    Returns:
        Name -> seed of a training subset, None for the evaluation subset.
    """
    return {grid.subset(seed): seed for seed in (None, *config["merging"]["seeds"])}


def task_files(config: Config, task: str, subset: str) -> list[Path]:
    """Return the files that a subset of local data is read from.

    Args:
        config: the whole configuration.
        task: name of the task.
        subset: name of the choice.

    Returns:
        One file, or none for other sources.
    """
    merging = config["merging"]
    if merging["source"] != "local":
        return []
    split = "evaluation" if subset == grid.EVALUATION else "train"
    return [Path(merging["local"][task][split]).expanduser()]


def task_data(config: Config, task: str, subset: str) -> dict[str, Any]:
    """Return the settings of stage ``task_data``.

    Args:
        config: the whole configuration.
        task: name of the task.
        subset: name of the choice.

    Returns:
        What it uses.
    """
    merging, seed = config["merging"], subsets(config)[subset]
    split, source = "evaluation" if seed is None else "train", merging["source"]
    own = merging[source]
    return {
        "task": task,
        # Prompts and labels are data, which the code's fingerprint does not see.
        "definition": definitions()[task],
        "split": split,
        "seed": merging["evaluation_seed"] if seed is None else seed,
        "cap": merging[f"{split}_cap"],
        "source": source,
        "own": {task: own[task]} if source == "local" else own,
        "tokenizer": chosen(config["tokenizer"], config["tokenizer"]["name"]),
        **only(merging, "max_tokens", "reserved_tokens"),
    }


def is_federated(config: Config, base: str) -> bool:
    """Return whether a base is the best model of the federated runs.

    Args:
        config: the whole configuration.
        base: its name.
    """
    return bool(bases(config)[base]["checkpoint"] == grid.FEDERATED)


def base_files(config: Config, base: str, jobs: Iterable[str]) -> list[str]:
    """Return what a base is made from; what is fetched from the hub is no file here.

    Args:
        config: the whole configuration.
        base: its name.
        jobs: folders of the training jobs below results/federated.

    Returns:
        Tables of all runs, or the files of a local checkpoint that are there.
    """
    if is_federated(config, base):
        return [f"results/federated/{job}/runs.parquet" for job in jobs]
    folder = Path(bases(config)[base]["checkpoint"]).expanduser()
    return sorted(str(path) for pattern in CHECKPOINT_FILES for path in folder.glob(pattern))


def merging_base(config: Config, base: str, jobs: Sequence[str]) -> dict[str, Any]:
    """Return the settings of stage ``merging_base``.

    Args:
        config: the whole configuration.
        base: its name.
        jobs: folders of the training jobs below results/federated.

    Returns:
        What it uses.
    """
    return {
        "origin": bases(config)[base]["checkpoint"],
        "precision": config["merging"]["precision"],
        "tokenizer": chosen(config["tokenizer"], config["tokenizer"]["name"]),
        **({"jobs": list(jobs)} if is_federated(config, base) else {}),
    }


def specialists(config: Config, base: str, task: str, seed: int) -> dict[str, Any]:
    """Return the settings of stage ``specialists``.

    Args:
        config: the whole configuration.
        base: name of the base.
        task: name of the task.
        seed: root seed.

    Returns:
        What it uses.
    """
    return {
        "task": task,
        "seed": seed,
        "batch_size": bases(config)[base]["batch_size"],
        "fine_tuning": config["merging"]["fine_tuning"],
        **_machine(config),
    }


def specialist_accuracy(config: Config, base: str) -> dict[str, Any]:
    """Return the settings of stage ``specialist_accuracy``.

    Args:
        config: the whole configuration.
        base: name of the base.

    Returns:
        What it uses.
    """
    return {**_evaluated(config, base), "seeds": config["merging"]["seeds"]}


def merges(config: Config, base: str, seed: int) -> dict[str, Any]:
    """Return the settings of stage ``merges``.

    Args:
        config: the whole configuration.
        base: name of the base.
        seed: root seed of the specialists.

    Returns:
        What it uses.
    """
    return {
        **_evaluated(config, base),
        "seed": seed,
        **only(config["merging"], "operators", "gradient_examples"),
    }


def merging(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``merging``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {
        "bases": {name: base["paper_checkpoint"] for name, base in bases(config).items()},
        **only(config["merging"], "seeds", "source"),
        "published": data_fingerprint(f"{ROOM}.published"),
    }


def _machine(config: Config) -> dict[str, Any]:
    """What decides a number on a device; part of a result's identity."""
    return {
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
        **only(config["merging"], "precision", "device", "threads"),
    }


def _evaluated(config: Config, base: str) -> dict[str, Any]:
    """What stages share that evaluate models of a base."""
    merging = config["merging"]
    return {
        "base": base,
        **only(merging, "tasks", "evaluation_batch_size"),
        **only(merging["fine_tuning"], "mus", "checkpoint_epochs"),
        **_machine(config),
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    merging, root = config["merging"], "merging"
    names = list(bases(config))
    pairs = [(base, seed) for base in names for seed in merging["seeds"]]
    found: dict[str, dict[str, Sequence[str]]] = {
        "task_data": {
            f"{root}/tasks/task={task}/subset={subset}": ["examples", "labels"]
            for task in merging["tasks"]
            for subset in subsets(config)
        },
        "merging_base": {f"{root}/bases/base={base}": ["base"] for base in names},
        "specialists": {
            f"{root}/specialists/base={base}/task={task}/seed={seed}": ["specialists"]
            for base, seed in pairs
            for task in merging["tasks"]
        },
        "specialist_accuracy": {
            f"{root}/accuracy/base={base}": ["specialist_accuracy"] for base in names
        },
        "merges": {
            f"{root}/merges/base={base}/seed={seed}": ["merges", "displacements", "task_vectors"]
            for base, seed in pairs
        },
        "merging": {f"{root}/tables": ["all_merges", "all_specialist_accuracy", "numbers"]},
    }
    return {
        rule: {job: [f"{job}/{name}.parquet" for name in tables] for job, tables in jobs.items()}
        for rule, jobs in found.items()
    }


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Specialists and merges.
    """
    merging, tuning = config["merging"], config["merging"]["fine_tuning"]
    jobs = len(bases(config)) * len(merging["seeds"])
    per_job = grid.merges(tuning["mus"], tuning["checkpoint_epochs"], merging["operators"])
    trained = jobs * len(merging["tasks"]) * len(tuning["mus"])
    return {"specialists": trained, "merges": jobs * len(per_job)}


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of merging's checks.

    Args:
        config: the whole configuration.

    Returns:
        What was swept, and the fingerprint per table.
    """
    merging = config["merging"]
    return {
        "bases": list(bases(config)),
        **only(merging, "tasks", "seeds", "operators"),
        **only(merging["fine_tuning"], "mus", "checkpoint_epochs"),
        "codes": {
            name: code_fingerprint(
                f"{ROOM}.{name}", choices=runs_grid.mixer_choices(config["studies"])
            )
            for name in ("specialists", "merges")
        },
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }
