"""Permutations of features that occur in several tensors at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedscan.params.algebra import Params


class Slot(NamedTuple):
    """Where a group's features lie in one tensor.

    Feature j is the entries ``start + j * width`` to ``start + (j + 1) * width`` along ``axis``.
    """

    name: str
    axis: int
    start: int
    width: int


class PermutationGroup(NamedTuple):
    """``size`` features whose common reordering in all ``slots`` leaves the function alone."""

    label: str
    size: int
    slots: tuple[Slot, ...]


# Kind of reordering -> its groups.
Groups = dict[str, tuple[PermutationGroup, ...]]
# What FedAlign asks for.
ALIGNED = ("state", "heads")


def joined(layers: Iterable[Groups]) -> Groups:
    """Return the groups of all layers together.

    Args:
        layers: groups of each, in order.

    Returns:
        Kind -> groups, in layer order; the kinds of ``ALIGNED`` are always there.
    """
    found: Groups = dict.fromkeys(ALIGNED, ())
    for layer in layers:
        for kind, groups in layer.items():
            found[kind] = (*found.get(kind, ()), *groups)
    return found


def features(params: Mapping[str, Tensor], group: PermutationGroup) -> Tensor:
    """Return the group's features as rows, in float64.

    Args:
        params: named tensors that contain the group's tensors.
        group: which features.

    Returns:
        (size, entries per feature): all slots side by side.
    """
    parts = []
    for slot in group.slots:
        block = params[slot.name].narrow(slot.axis, slot.start, group.size * slot.width)
        rows = block.movedim(slot.axis, 0).reshape(group.size, -1)
        parts.append(rows.to(torch.float64))
    return torch.cat(parts, dim=1)


def permute(params: Mapping[str, Tensor], group: PermutationGroup, order: Sequence[int]) -> Params:
    """Return parameters whose feature j is the old feature ``order[j]``.

    Args:
        params: named tensors.
        group: which features.
        order: a permutation of range(size).

    Returns:
        New tensors where the group has slots; the others are shared with ``params``.

    Raises:
        ValueError: if ``order`` is not a permutation.
    """
    if sorted(order) != list(range(group.size)):
        raise ValueError(f"{group.label}: {list(order)} is not a permutation of {group.size}")
    changed = dict(params)
    for slot in group.slots:
        tensor = changed[slot.name]
        if tensor is params[slot.name]:
            tensor = tensor.clone()
        index = torch.tensor(
            [slot.start + j * slot.width + k for j in order for k in range(slot.width)],
            device=tensor.device,
        )
        block = tensor.index_select(slot.axis, index)
        tensor.narrow(slot.axis, slot.start, group.size * slot.width).copy_(block)
        changed[slot.name] = tensor
    return changed
