"""A run's state between rounds, as one checkpoint file: model, server, clients and rows so far."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedscan.federated import engine
from fedscan.federated.algorithm import Algorithm, State
from fedscan.federated.problem import Problem
from fedscan.io import checkpoints
from fedscan.params.algebra import Params
from fedscan.stages.job import Log
from fedscan.stages.run_rows import Record


def restore(
    path: Path, problem: Problem, algorithm: Algorithm, identity: Mapping[str, str], report: Log
) -> tuple[engine.RunState, Record]:
    """Return where a run left off, or its beginning.

    Args:
        path: checkpoint file; may be missing.
        problem: gives initial parameters and device.
        algorithm: gives initial states.
        identity: hashes of configuration, data and code; a checkpoint of another one is ignored.
        report: told what happens.

    Returns:
        State and rows after the last completed round.
    """
    start = engine.initial_state(problem, algorithm)
    if not path.exists():
        return start, Record()
    try:
        arrays, record = checkpoints.load(path)
    except ValueError as error:
        report(f"starting over: {error}")
        return start, Record()
    if record["identity"] != dict(identity):
        report(f"starting over: {path.name} was made under another configuration, data or code")
        return start, Record()
    report(f"resuming after round {record['round']}")
    device = next(iter(start.params.values())).device
    trees = _unflatten(arrays, device)
    clients = tuple(trees.get(f"client{k}", {}) for k in range(len(start.clients)))
    state = engine.RunState(
        record["round"], trees["global"]["params"], trees.get("server", {}), clients
    )
    return state, Record.from_json(record["rows"])


def store(path: Path, state: engine.RunState, record: Record, identity: Mapping[str, str]) -> None:
    """Replace the checkpoint by the state after a round.

    Args:
        path: checkpoint file.
        state: after the round.
        record: rows up to that round.
        identity: hashes of configuration, data and code.
    """
    trees: dict[str, State] = {"global": {"params": state.params}, "server": state.server}
    trees |= {f"client{k}": client for k, client in enumerate(state.clients)}
    arrays = {
        f"{tree}/{part}/{name}": array
        for tree, parts in trees.items()
        for part, params in parts.items()
        for name, array in to_arrays(params).items()
    }
    facts = {"round": state.round_index, "identity": dict(identity), "rows": record.to_json()}
    checkpoints.save(path, arrays, facts)


def to_arrays(params: Params) -> dict[str, np.ndarray]:
    """Return the tensors as NumPy arrays on the host.

    Args:
        params: named tensors.

    Returns:
        Name -> array.
    """
    return {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}


def _unflatten(arrays: Mapping[str, np.ndarray], device: torch.device) -> dict[str, dict[str, Any]]:
    trees: dict[str, dict[str, dict[str, Tensor]]] = {}
    for key, array in arrays.items():
        tree, part, name = key.split("/", 2)
        tensor = torch.from_numpy(array).to(device)
        trees.setdefault(tree, {}).setdefault(part, {})[name] = tensor
    return trees
