"""Trained models of this room as files."""

from collections.abc import Mapping
from pathlib import Path

import torch

from fedscan.experiments.sessa.grid import Unit
from fedscan.io import checkpoints
from fedscan.models.sequence_model import SequenceModel
from fedscan.models.sequence_shape import SequenceShape
from fedscan.params.algebra import Params


def model_file(unit: Unit) -> str:
    """Return where a run's model is, below its job's folder.

    Args:
        unit: the run.
    """
    return f"models/{unit.name}.safetensors"


def write_model(
    path: Path, shape: SequenceShape, params: Params, identity: Mapping[str, str]
) -> None:
    """Write a model.

    Args:
        path: of the file.
        shape: of the model.
        params: by name.
        identity: hashes of what it was made from.
    """
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}
    checkpoints.save(path, arrays, {"shape": shape._asdict(), **identity})


def read_model(path: Path, shape: SequenceShape) -> Params:
    """Read a model.

    Args:
        path: of the file.
        shape: it is to have.

    Returns:
        Parameters in float32, in the model's order.

    Raises:
        ValueError: if the file is damaged, or of another shape, form or number of heads.
    """
    arrays, facts = checkpoints.load(path)
    found = facts.get("shape")
    if found != shape._asdict():
        wanted = shape._asdict()
        names = [name for name in wanted if not found or found.get(name) != wanted[name]]
        told = ", ".join(
            f"{name} {(found or {}).get(name)}, expected {wanted[name]}" for name in names
        )
        raise ValueError(f"{path}: not a model of this shape: {told}")
    with torch.device("meta"):
        names = [name for name, _ in SequenceModel(shape).named_parameters()]
    return {name: torch.from_numpy(arrays[name]).clone() for name in names}
