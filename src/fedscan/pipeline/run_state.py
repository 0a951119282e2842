"""A run's state between rounds, as one checkpoint file: model, server, clients and rows so far."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch

from fedscan.federated import engine
from fedscan.federated.algorithm import Algorithm, State
from fedscan.federated.problem import Problem
from fedscan.io import checkpoints
from fedscan.params.algebra import Params
from fedscan.pipeline.stage import Log


class Rows(Protocol):
    """Rows of a run, which a checkpoint carries along."""

    def to_json(self) -> Any:
        """Return JSON-like data."""
        ...

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Rebuild the rows."""
        ...


R = TypeVar("R", bound=Rows)


def restore(
    path: Path,
    problem: Problem,
    algorithm: Algorithm,
    identity: Mapping[str, str],
    report: Log,
    rows: type[R],
) -> tuple[engine.RunState, R]:
    """Return where a run left off, or its beginning.

    Args:
        path: checkpoint file; may be missing.
        problem: gives initial parameters and device.
        algorithm: gives initial states.
        identity: hashes of configuration, data and code; a checkpoint of another one is ignored.
        report: told what happens.
        rows: type of the rows the checkpoint carries.

    Returns:
        State and rows after the last completed round.
    """
    start = engine.initial_state(problem, algorithm)
    if not path.exists():
        return start, rows()
    try:
        arrays, record = checkpoints.load(path)
    except ValueError as error:
        report(f"starting over: {error}")
        return start, rows()
    if set(record) != {"round", "identity", "rows"}:
        report(f"starting over: {path.name} is not a run's checkpoint; it holds {[*record]}")
        return start, rows()
    if record["identity"] != dict(identity):
        report(f"starting over: {path.name} was made under another configuration, data or code")
        return start, rows()
    report(f"resuming after round {record['round']}")
    trees = _unflatten(arrays, start.params)
    clients = tuple(trees.get(f"client{k}", {}) for k in range(len(start.clients)))
    state = engine.RunState(
        record["round"], trees["global"]["params"], trees.get("server", {}), clients
    )
    return state, rows.from_json(record["rows"])


def store(path: Path, state: engine.RunState, record: Rows, identity: Mapping[str, str]) -> None:
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


def _unflatten(arrays: Mapping[str, np.ndarray], like: Params) -> dict[str, dict[str, Params]]:
    """Rebuild the trees, with names in the order of ``like``: sums over names depend on it."""
    parts = dict.fromkeys(key.rsplit("/", 1)[0] for key in sorted(arrays))
    trees: dict[str, dict[str, Params]] = {}
    for part in parts:
        tree, name = part.split("/")
        # Copies in torch's own, aligned memory: matrix products may round differently elsewhere.
        trees.setdefault(tree, {})[name] = {
            key: torch.from_numpy(arrays[f"{part}/{key}"]).clone().to(tensor.device)
            for key, tensor in like.items()
        }
    return trees
