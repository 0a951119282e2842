"""Named tensors and what goes with them between steps of central training, as one checkpoint."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedscan.io import checkpoints
from fedscan.params.algebra import Params
from fedscan.pipeline.stage import Log


def store(
    path: Path, trees: Mapping[str, Params], record: Any, identity: Mapping[str, str]
) -> None:
    """Replace a checkpoint.

    Args:
        path: of the file.
        trees: name -> tensors, e.g. parameters and moments.
        record: JSON-like data that goes with them: how far it is, rows so far.
        identity: hashes of configuration, data and code.
    """
    arrays = {
        f"{tree}/{name}": tensor.detach().cpu().numpy()
        for tree, params in trees.items()
        for name, tensor in params.items()
    }
    checkpoints.save(path, arrays, {"identity": dict(identity), "record": record})


def restore(
    path: Path, trees: Sequence[str], like: Params, identity: Mapping[str, str], report: Log
) -> tuple[list[Params], Any] | None:
    """Read a checkpoint.

    Args:
        path: of the file; may be missing.
        trees: names of the trees.
        like: names, order and device of each tree's tensors.
        identity: hashes; a checkpoint of others is ignored.
        report: told why a file that is there is not used.

    Returns:
        The trees, in the order asked for, and the record; None to start from the beginning.
    """
    if not path.exists():
        return None
    try:
        arrays, kept = checkpoints.load(path)
    except ValueError as error:
        report(f"starting over: {error}")
        return None
    if set(kept) != {"identity", "record"}:
        report(f"starting over: {path.name} is an earlier version's")
        return None
    if kept["identity"] != dict(identity):
        report(f"starting over: {path.name} was made under another configuration, data or code")
        return None
    # Copies in torch's own, aligned memory: matrix products may round differently elsewhere.
    found = [
        {
            name: torch.from_numpy(arrays[f"{tree}/{name}"]).clone().to(tensor.device)
            for name, tensor in like.items()
        }
        for tree in trees
    ]
    return found, kept["record"]
