"""From configuration to the table of runs. Imported by the Snakefile, so it never loads torch.

A run is one (backbone, clients, setting, depth, local_steps, beta, algorithm, seed, value); a job
is a run without its value: one process trains all values of a job. Numbers become text in one
place, ``labels.label``, so that 5e-4, 0.0005 and "5E-04" are one run with one path.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedscan.labels import axis_label, combinations
from fedscan.models.architecture import ATTENTION, MAMBA2
from fedscan.models.backbones import BACKBONES

# Registry of layers' kinds, for fingerprints of code.
MIXERS = "fedscan.models.mixers"


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
            values = combinations(study["hyperparameters"][algorithm] or {})
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
                for value, hyperparameters in values:
                    entry = found.setdefault((job, value), (hyperparameters, []))
                    entry[1].append(name)
    return [
        Run(job, value, hyperparameters, tuple(names))
        for (job, value), (hyperparameters, names) in sorted(found.items(), key=lambda kv: kv[0])
    ]


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


def kinds(all_runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the kinds of layers that runs have.

    Args:
        all_runs: runs of the configuration.

    Returns:
        Keys of ``models.mixers.MIXERS``, sorted.
    """
    shapes = {(run.job.backbone, run.job.depth) for run in all_runs}
    return tuple(sorted({kind for name, depth in shapes for kind in BACKBONES[name](depth)}))


def kinds_name(all_runs: Sequence[Run]) -> str:
    """Return the kinds of layers that runs have, as one word.

    Args:
        all_runs: runs of the configuration.
    """
    return "+".join(kinds(all_runs))


def mixer_choices(studies: Mapping[str, Mapping[str, Any]]) -> dict[str, Sequence[str]]:
    """Return which kinds of layers count in the fingerprint of a stage that reads models.

    Args:
        studies: as in ``config.studies``.

    Returns:
        Registry package -> the kinds of the configuration's runs, and of public checkpoints.
    """
    return {MIXERS: sorted({MAMBA2, ATTENTION, *kinds(runs(studies))})}
