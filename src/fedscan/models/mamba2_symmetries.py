"""Reorderings of a Mamba2 layer's features that leave its function unchanged."""

from fedscan.models.architecture import Architecture
from fedscan.params.permutation import PermutationGroup, Slot

# Kind of reordering -> its groups.
Groups = dict[str, tuple[PermutationGroup, ...]]
KINDS = ("state", "heads")


def no_groups(_shape: Architecture, _layer: int) -> Groups:
    """Return nothing: no reordering of the layer is known, or used."""
    return {}


def mamba2_groups(shape: Architecture, layer: int) -> Groups:
    """Return the permutation groups of one Mamba2 layer.

    ``state``: the state features of B and C, per layer and group of heads. The state is summed
    over C_n B_n, so the same order in B and C (projection rows, convolution channels) changes
    nothing. ``heads``: the heads of a group, with everything indexed by head.

    Args:
        shape: architecture.
        layer: from 0.

    Returns:
        Kind -> a group per group of heads.
    """
    groups = range(shape.ngroups)
    return {
        "state": tuple(_state(shape, layer, group) for group in groups),
        "heads": tuple(_heads(shape, layer, group) for group in groups),
    }


def _state(shape: Architecture, layer: int, group: int) -> PermutationGroup:
    """Rows of in_proj are [z | x | B | C | dt], channels of conv1d are [x | B | C]."""
    inner, state = shape.expand * shape.d_model, shape.d_state
    prefix = f"backbone.layers.{layer}.mixer."
    slots = []
    for block in (group, shape.ngroups + group):
        channel = inner + block * state
        slots += [
            Slot(f"{prefix}in_proj.weight", 0, inner + channel, 1),
            Slot(f"{prefix}conv1d.weight", 0, channel, 1),
            Slot(f"{prefix}conv1d.bias", 0, channel, 1),
        ]
    return PermutationGroup(f"layer {layer} state features {group}", state, tuple(slots))


def _heads(shape: Architecture, layer: int, group: int) -> PermutationGroup:
    inner, width = shape.expand * shape.d_model, shape.headdim
    heads = inner // width
    size = heads // shape.ngroups
    first = group * size
    channel = first * width
    prefix = f"backbone.layers.{layer}.mixer."
    dt = 2 * inner + 2 * shape.ngroups * shape.d_state + first
    slots = (
        Slot(f"{prefix}in_proj.weight", 0, channel, width),
        Slot(f"{prefix}in_proj.weight", 0, inner + channel, width),
        Slot(f"{prefix}in_proj.weight", 0, dt, 1),
        Slot(f"{prefix}conv1d.weight", 0, channel, width),
        Slot(f"{prefix}conv1d.bias", 0, channel, width),
        Slot(f"{prefix}A_log", 0, first, 1),
        Slot(f"{prefix}D", 0, first, 1),
        Slot(f"{prefix}dt_bias", 0, first, 1),
        Slot(f"{prefix}norm.weight", 0, channel, width),
        Slot(f"{prefix}out_proj.weight", 1, channel, width),
    )
    return PermutationGroup(f"layer {layer} heads {group}", size, slots)
