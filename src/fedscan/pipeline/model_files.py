"""Model files: published checkpoints in, our checkpoints out, tensors one by one for merging."""

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedscan.io.atomic import replacing, write_text
from fedscan.io.pointer_files import refuse_pointer
from fedscan.models.architecture import Architecture
from fedscan.models.pretrained import architecture, description, parameters, shapes
from fedscan.params.algebra import Params

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX, PICKLED = "model.safetensors.index.json", "pytorch_model.bin"
WANTED = (CONFIG, WEIGHTS, INDEX, "model-*.safetensors", PICKLED)


def from_pretrained(name: str, precision: str) -> tuple[Architecture, Params]:
    """Read a checkpoint of mamba_ssm or transformers.

    Args:
        name: folder, or namespace/name on the Hugging Face hub.
        precision: dtype of the result, a key of ``DTYPES``.

    Returns:
        Architecture and parameters, tied weights once.

    Raises:
        ValueError: if there is no such checkpoint, or it is not a Mamba2 language model; names
            file, tensor and what was expected.
    """
    folder = _folder(name)
    shape = architecture(_json(folder / CONFIG), str(folder / CONFIG))
    file = next((f for f in (WEIGHTS, INDEX, PICKLED) if (folder / f).is_file()), None)
    if file is None:
        raise ValueError(f"{folder}: no weights; expected {WEIGHTS}, {INDEX} or {PICKLED}")
    state = _state(folder, file)
    return shape, parameters(state, shape, DTYPES[precision], str(folder / file))


def write_base(folder: Path, shape: Architecture, params: Params) -> None:
    """Write a checkpoint that ``from_pretrained`` reads; mamba_ssm's names, tied head left out.

    Args:
        folder: receives config.json and model.safetensors.
        shape: architecture.
        params: parameters.
    """
    write_text(folder / CONFIG, json.dumps(description(shape), indent=2) + "\n")
    write_model(folder / WEIGHTS, params)


def write_model(path: Path, params: Params) -> None:
    """Write parameters as safetensors, whole or not at all.

    Args:
        path: file to write.
        params: parameters.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in params.items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})


class TensorFile:
    """A model file whose tensors are read when asked for, so that no whole model is held."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        """Open ``path``; tensors go to ``device``.

        Raises:
            ValueError: if the file is missing or damaged.
        """
        self.path = path
        refuse_pointer(path)
        try:
            self._file = safe_open(path, framework="pt", device=device)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{path}: not a whole model file ({error})") from None
        self._names = set(self._file.keys())  # type: ignore[no-untyped-call]

    def __getitem__(self, name: str) -> Tensor:
        """Return one tensor, in memory of its own: the file's alignment changes rounding.

        Raises:
            ValueError: if the file has no such tensor.
        """
        if name not in self._names:
            raise ValueError(f"{self.path}: no tensor {name!r}; it has {len(self._names)} others")
        tensor: Tensor = self._file.get_tensor(name).clone()  # type: ignore[no-untyped-call]
        return tensor

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Yield names and tensors in sorted order."""
        for name in sorted(self._names):
            yield name, self[name]


def read_base(folder: Path) -> tuple[Architecture, Params]:
    """Read what ``write_base`` wrote, in the model's order.

    Args:
        folder: holds config.json and model.safetensors.

    Returns:
        Architecture and parameters in their stored dtype.
    """
    shape = architecture(_json(folder / CONFIG), str(folder / CONFIG))
    return shape, read_model(folder / WEIGHTS, shape)


def read_model(path: Path, shape: Architecture) -> Params:
    """Read a model file, in the model's order: sums over names depend on it.

    Args:
        path: file written by ``write_model``.
        shape: architecture.

    Returns:
        Parameters in their stored dtype.
    """
    file = TensorFile(path)
    return {name: file[name] for name in shapes(shape)}


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if name.count("/") != 1 or name.startswith((".", "~", "/")):
        raise ValueError(
            f"{name!r} is no folder and no hub id; expected a folder with {CONFIG}, or"
            " namespace/name"
        )
    # Imported here: only this source needs it.
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(WANTED)))
    except (OSError, ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{name!r} cannot be fetched: {type(error).__name__}: {text}; give the path of a"
            " downloaded copy"
        ) from error


def _json(file: Path) -> Mapping[str, Any]:
    refuse_pointer(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{file}: no such file; a checkpoint folder has one") from None
    except ValueError as error:
        raise ValueError(f"{file}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected an object, found {type(content).__name__}")
    return content


def _state(folder: Path, file: str) -> dict[str, Tensor]:
    if file == PICKLED:
        return _pickled(folder / file)
    if file == WEIGHTS:
        return _safetensors(folder / file)
    entries = _json(folder / file).get("weight_map")
    if not isinstance(entries, dict) or not all(isinstance(f, str) for f in entries.values()):
        raise ValueError(f"{folder / file}: no weight_map of tensor names and file names")
    state: dict[str, Tensor] = {}
    for shard in sorted(set(entries.values())):
        state |= _safetensors(folder / shard)
    absent = sorted(set(entries) - set(state))
    if absent:
        raise ValueError(f"{folder / file}: tensor {absent[0]!r} is in none of its files")
    return state


def _safetensors(path: Path) -> dict[str, Tensor]:
    refuse_pointer(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from None


def _pickled(path: Path) -> dict[str, Tensor]:
    refuse_pointer(path)
    try:
        # weights_only: a pickle of strangers must not run code.
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch raises whatever the pickle provokes
        text = " ".join(str(error).split())[:200]
        if isinstance(error, pickle.UnpicklingError) or "weights_only" in str(error):
            # torch's own words advise to run the file's code.
            text = "not a file of tensors alone; have its weights saved as safetensors"
        raise ValueError(f"{path}: cannot be loaded as weights ({text})") from None
    if not isinstance(state, dict) or not all(isinstance(t, Tensor) for t in state.values()):
        raise ValueError(f"{path}: expected named tensors")
    return state
