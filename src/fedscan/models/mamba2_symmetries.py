"""Reorderings of a Mamba2 layer's features that leave its function unchanged."""

from typing import NamedTuple

from fedscan.params.permutation import Groups, PermutationGroup, Slot


class _Sizes(NamedTuple):
    prefix: str
    layer: int
    inner: int
    state: int
    headdim: int
    ngroups: int


def mamba2_groups(
    prefix: str, layer: int, d_inner: int, d_state: int, headdim: int, ngroups: int
) -> Groups:
    """Return the permutation groups of one Mamba2 layer.

    ``state``: the state features of B and C, per layer and group of heads. The state is summed
    over C_n B_n, so the same order in B and C (projection rows, convolution channels) changes
    nothing. ``heads``: the heads of a group, with everything indexed by head.

    Args:
        prefix: how the names of the layer's tensors begin.
        layer: from 0, for labels.
        d_inner: inner width.
        d_state: state size per head.
        headdim: channels per head.
        ngroups: groups of heads.

    Returns:
        Kind -> a group per group of heads.
    """
    sizes = _Sizes(prefix, layer, d_inner, d_state, headdim, ngroups)
    return {
        "state": tuple(_state(sizes, group) for group in range(ngroups)),
        "heads": tuple(_heads(sizes, group) for group in range(ngroups)),
    }


def _state(sizes: _Sizes, group: int) -> PermutationGroup:
    """Rows of in_proj are [z | x | B | C | dt], channels of conv1d are [x | B | C]."""
    prefix, inner, state = sizes.prefix, sizes.inner, sizes.state
    slots = []
    for block in (group, sizes.ngroups + group):
        channel = inner + block * state
        slots += [
            Slot(f"{prefix}in_proj.weight", 0, inner + channel, 1),
            Slot(f"{prefix}conv1d.weight", 0, channel, 1),
            Slot(f"{prefix}conv1d.bias", 0, channel, 1),
        ]
    return PermutationGroup(f"layer {sizes.layer} state features {group}", state, tuple(slots))


def _heads(sizes: _Sizes, group: int) -> PermutationGroup:
    prefix, inner, width = sizes.prefix, sizes.inner, sizes.headdim
    heads = inner // width
    size = heads // sizes.ngroups
    first = group * size
    channel = first * width
    dt = 2 * inner + 2 * sizes.ngroups * sizes.state + first
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
    return PermutationGroup(f"layer {sizes.layer} heads {group}", size, slots)
