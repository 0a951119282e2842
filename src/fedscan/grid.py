"""From configuration to the table of runs. Imported by the Snakefile, so it never loads torch.

A run is one (backbone, clients, setting, depth, local_steps, beta, algorithm, seed, value); a job
is a run without its value: one process trains all values of a job. Numbers become text in one
place, ``label``, so that 5e-4, 0.0005 and "5E-04" are one run with one path.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NO_HYPERPARAMETERS = "-"


class Job(NamedTuple):
    """Axes of a training job; the fields are the table columns of the same names."""

    backbone: str
    clients: int
    setting: str
    depth: int
    local_steps: int
    beta: float
    algorithm: str
    seed: int


class Run(NamedTuple):
    """One training run: a job and one combination of hyperparameter values."""

    job: Job
    value: str
    hyperparameters: tuple[tuple[str, Any], ...]
    studies: tuple[str, ...]


# Hive keys in path order; "E" is the paper's letter for local steps.
PATH_KEYS = (
    ("backbone", "backbone"),
    ("clients", "clients"),
    ("setting", "setting"),
    ("depth", "depth"),
    ("E", "local_steps"),
    ("beta", "beta"),
    ("algorithm", "algorithm"),
    ("seed", "seed"),
)


def label(value: float | str) -> str:
    """Return the canonical spelling of a number, or a word unchanged.

    Args:
        value: number, number as text, or word.

    Returns:
        The shortest text that reads back as the same double; integers without a point. The same
        for every spelling of a number: 0.0005, 5e-4 and "5E-04" give "0.0005".

    Raises:
        ValueError: for NaN, infinities and booleans, which have no place in a path.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value!r} has no label; use 0 or 1")
    try:
        number = float(value)
    except ValueError:
        return str(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{value!r} is not finite and has no label")
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


def axis_label(value: float | str) -> str:
    """Return the label of an axis value; names stay as they are, even if they look like numbers.

    Args:
        value: number or name.

    Returns:
        Text for a path; settings "1" and "01" are two settings.
    """
    return value if isinstance(value, str) else label(value)


def value_label(hyperparameters: Mapping[str, Any]) -> str:
    """Return the canonical spelling of a combination of hyperparameters.

    Args:
        hyperparameters: name -> number or word.

    Returns:
        ``name=value,...`` sorted by name; ``-`` when there are none.
    """
    parts = [f"{name}={label(value)}" for name, value in sorted(hyperparameters.items())]
    return ",".join(parts) or NO_HYPERPARAMETERS


def value_file(value: str) -> str:
    """Return the name of the model file of a value.

    Args:
        value: label made by ``value_label``.

    Returns:
        The label; ``none.safetensors`` where there are no hyperparameters, since commands take a
        name that begins with a dash for an option.
    """
    return f"{'none' if value == NO_HYPERPARAMETERS else value}.safetensors"


def runs(studies: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """Return every run the studies ask for, each once, in canonical order.

    Args:
        studies: name -> axes and hyperparameter lists, as in ``config.studies``.

    Returns:
        Runs sorted by job and value; a run that several studies share names them all.
    """
    found: dict[tuple[Job, str], tuple[tuple[tuple[str, Any], ...], list[str]]] = {}
    for name, study in studies.items():
        for algorithm in study["algorithms"]:
            combinations = _combinations(study["hyperparameters"][algorithm] or {})
            for axes in itertools.product(
                study["backbones"],
                study["clients"],
                study["settings"],
                study["depths"],
                study["local_steps"],
                study["betas"],
                study["seeds"],
            ):
                backbone, clients, setting, depth, local_steps, beta, seed = axes
                job = Job(
                    backbone, clients, setting, depth, local_steps, float(beta), algorithm, seed
                )
                for value, hyperparameters in combinations:
                    entry = found.setdefault((job, value), (hyperparameters, []))
                    entry[1].append(name)
    return [
        Run(job, value, hyperparameters, tuple(names))
        for (job, value), (hyperparameters, names) in sorted(found.items(), key=lambda kv: kv[0])
    ]


def _combinations(
    lists: Mapping[str, Sequence[Any]],
) -> list[tuple[str, tuple[tuple[str, Any], ...]]]:
    names = sorted(lists)
    products = itertools.product(*(lists[name] for name in names))
    pairs = (tuple(zip(names, values, strict=True)) for values in products)
    return [(value_label(dict(pair)), pair) for pair in pairs]


def jobs(all_runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs by job.

    Args:
        all_runs: runs in canonical order.

    Returns:
        Path of the job -> its runs, one per value.
    """
    grouped: dict[Job, list[Run]] = {}
    for run in all_runs:
        grouped.setdefault(run.job, []).append(run)
    return {job_path(job): members for job, members in grouped.items()}


def path_pattern() -> str:
    """Return the pattern of job paths, with the fields as placeholders.

    Returns:
        ``backbone={backbone}/clients={clients}/...``.
    """
    return "/".join(f"{key}={{{field}}}" for key, field in PATH_KEYS)


def job_path(job: Job) -> str:
    """Return the job's folder below results/federated, in hive style.

    Args:
        job: axes of the job.

    Returns:
        ``backbone=mamba2/clients=4/setting=1/depth=4/E=64/beta=0.7/algorithm=fedprox/seed=0``.
    """
    return path_pattern().format(**{k: axis_label(v) for k, v in job._asdict().items()})


def labels(all_runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return the labels that occur on each path key, for wildcard constraints.

    Args:
        all_runs: runs of the configuration.

    Returns:
        Field name -> distinct labels in sorted order.
    """
    distinct = {run.job for run in all_runs}
    return {
        field: sorted({axis_label(getattr(job, field)) for job in distinct})
        for _, field in PATH_KEYS
    }


def partition_path(setting: str, beta: float, clients: int) -> str:
    """Return the folder of a partition below results/partition, in hive style.

    Args:
        setting: name of the domain assignment.
        beta: heterogeneity.
        clients: number of clients.

    Returns:
        ``setting=1/beta=0.7/clients=4``.
    """
    return f"setting={setting}/beta={label(beta)}/clients={label(clients)}"
