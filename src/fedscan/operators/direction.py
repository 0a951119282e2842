"""What merge operators share: experts, directions, and the step theta_0 + lambda * direction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from fedscan.params.algebra import Params


class Expert(Protocol):
    """Named tensors, each read when asked for."""

    def __getitem__(self, name: str, /) -> Tensor:
        """Return the tensor of that name."""
        ...


Base = Mapping[str, Tensor]
# Streams (name, change) in the order of the base's names; may be run again.
Direction = Callable[[], Iterator[tuple[str, Tensor]]]


def task_vector(base: Base, expert: Expert, name: str) -> Tensor:
    """Return one tensor of T_m = theta_m - theta_0.

    Args:
        base: theta_0; tied weights stand in it once.
        expert: theta_m.
        name: a name of ``base``.

    Returns:
        The difference, at least float32: bfloat16 would round it to three digits.

    Raises:
        ValueError: if the expert has another shape.
    """
    start, end = base[name], expert[name]
    if start.shape != end.shape:
        shapes = f"{tuple(end.shape)}, expected {tuple(start.shape)}"
        raise ValueError(f"merging: expert's tensor {name!r} has shape {shapes}")
    wide = torch.promote_types(start.dtype, torch.float32)
    return end.to(device=start.device, dtype=wide) - start.to(wide)


def weighted_sum(base: Base, experts: Sequence[Expert], weights: Sequence[float]) -> Direction:
    """Return the direction sum_m w_m T_m.

    Args:
        base: theta_0.
        experts: theta_m.
        weights: w_m.

    Returns:
        A direction that holds one tensor of one expert at a time; sums are kept in float64 and
        rounded once, as the federated server's are.
    """

    def stream() -> Iterator[tuple[str, Tensor]]:
        for name in base:
            total = torch.zeros_like(base[name], dtype=torch.float64)
            for expert, weight in zip(experts, weights, strict=True):
                vector = task_vector(base, expert, name)
                total.add_(vector, alpha=weight)
            yield name, total.to(vector.dtype)

    return stream


def merge(base: Base, direction: Direction, scale: float) -> Params:
    """Return theta_0 + scale * direction.

    Args:
        base: theta_0.
        direction: what an operator prepared.
        scale: lambda.

    Returns:
        New tensors in the dtypes of ``base``.
    """
    merged = {}
    for name, change in direction():
        start = base[name].to(change.dtype)
        step = change if scale == 1.0 else scale * change
        merged[name] = (start + step).to(base[name].dtype)
    return merged
