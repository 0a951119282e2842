"""The global models that training jobs keep, for other rooms to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fedscan.experiments.comparison.tables import IDENTITY, RUNS
from fedscan.io import checkpoints, parquet
from fedscan.labels import round_file, value_file
from fedscan.models.architecture import Architecture, from_facts
from fedscan.models.pretrained import parameters
from fedscan.params.algebra import Params

# Of every kept model's file.
SUFFIX = ".safetensors"


class KeptModel(NamedTuple):
    """A model of a run.

    Attributes:
        shape: architecture.
        params: of the dtype asked for, in torch's own memory.
        round_index: communication round; 0 is the initial model.
    """

    shape: Architecture
    params: Params
    round_index: int


class Best(NamedTuple):
    """The best run of some jobs.

    Attributes:
        job: folder of its job below results/federated.
        value: its hyperparameters, spelled out.
        val_ppl_last10: what it was selected by.
        file: its final model.
    """

    job: str
    value: str
    val_ppl_last10: float
    file: Path


def rows(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return a job's runs.

    Args:
        folder: of the job.

    Returns:
        Value -> row of table ``runs``.

    Raises:
        ValueError: if the table is missing or damaged.
    """
    table = parquet.read(folder / "runs.parquet", RUNS)
    return {row["value"]: row for row in table.to_pylist()}


def best(federated: Path, jobs: Sequence[str]) -> Best:
    """Return the run with the lowest last-10 validation perplexity.

    Args:
        federated: folder results/federated.
        jobs: folders of training jobs below it.

    Returns:
        Of equal perplexities the first path, then the first value.

    Raises:
        ValueError: if no run was completed, or its model is not kept.
    """
    found = [
        (row["val_ppl_last10"], job, value)
        for job in jobs
        for value, row in rows(federated / job).items()
        if row["status"] == "completed"
    ]
    if not found:
        raise ValueError(f"{federated}: no completed run whose model could be taken")
    perplexity, job, value = min(found)
    return Best(job, value, perplexity, file(federated / job, value, None))


def file(folder: Path, value: str, round_index: int | None) -> Path:
    """Return where a run's model is.

    Args:
        folder: of the job.
        value: the run's hyperparameters, spelled out.
        round_index: communication round; None: the run's last.

    Returns:
        The file.

    Raises:
        ValueError: if it is not there, or not of the training that the job's table tells of; says
            which key keeps it.
    """
    if round_index is None:
        path, key = folder / "models" / value_file(value), "workflow.keep_final_model"
    else:
        path, key = folder / round_file(value, round_index), "workflow.keep_model_rounds"
    if not path.is_file():
        raise ValueError(f"{path}: no such model; set {key} and delete {folder} to train it again")
    row = rows(folder).get(value)
    if row is None or not checkpoints.holds(path, {name: row[name] for name in IDENTITY}):
        raise ValueError(
            f"{path}: damaged, or not the model of the run in {folder / 'runs.parquet'}; set {key}"
            f" and delete {folder} to train it again"
        )
    return path


def read(path: Path, dtype: torch.dtype = torch.float32) -> KeptModel:
    """Read a model that a training job kept.

    Args:
        path: the file.
        dtype: of the result.

    Returns:
        The model.

    Raises:
        ValueError: if the file is damaged or holds no model of a run.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    arrays, facts = checkpoints.load(path)
    try:
        shape, round_index = from_facts(facts), facts["round"]
    except (KeyError, TypeError):
        raise ValueError(f"{path}: no model of a training run") from None
    state = {name: torch.from_numpy(array).clone() for name, array in arrays.items()}
    return KeptModel(shape, parameters(state, shape, dtype, str(path)), round_index)
