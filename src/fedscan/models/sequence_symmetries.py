"""Reorderings of a sequence model's features that leave its function unchanged."""

from fedscan.models.mamba2_symmetries import mamba2_groups
from fedscan.models.sequence_shape import EXPAND, NGROUPS, SequenceShape
from fedscan.models.sessa_symmetries import sessa_groups
from fedscan.params.permutation import Groups

KINDS = ("state", "heads")
# Kind of layer -> where Mamba2's names begin.
MAMBA2_PREFIX = {"mamba2": "mixer.", "mamba2_plain": ""}


def permutation_groups(shape: SequenceShape) -> Groups:
    """Return the permutation groups of every layer.

    Args:
        shape: of the model.

    Returns:
        Kind -> groups, in layer order; ``state`` and ``heads`` are always there.
    """
    found: Groups = dict.fromkeys(KINDS, ())
    for layer in range(shape.depth):
        for kind, groups in _of_layer(shape, layer).items():
            found[kind] = (*found.get(kind, ()), *groups)
    return found


def _of_layer(shape: SequenceShape, layer: int) -> Groups:
    prefix = f"blocks.{layer}.layer."
    if shape.mixer in MAMBA2_PREFIX:
        inner = EXPAND * shape.d_model
        own = prefix + MAMBA2_PREFIX[shape.mixer]
        return mamba2_groups(own, layer, inner, shape.d_state, shape.headdim, NGROUPS)
    attention = shape.mixer == "mha"
    heads = shape.heads if attention else shape.forward_heads
    loop = shape.mixer not in ("mha", "sessa_no_feedback")
    groups = sessa_groups(
        prefix, layer, shape.d_model, heads, loop=loop, bias=shape.form == "authors"
    )
    if shape.mixer == "sessa_uniform":
        return _without(groups, "state", f"{prefix}feedback_proj.")
    if shape.mixer == "sessa_rope_feedback":
        # Rotary positions tell coordinates apart.
        return {kind: found for kind, found in groups.items() if kind != "state"}
    return (
        _without(groups, "", f"{prefix}gain_proj.") if shape.mixer == "sessa_fixed_gain" else groups
    )


def _without(groups: Groups, kind: str, prefix: str) -> Groups:
    """Return groups without a kind, and without the slots of tensors that are not there."""
    return {
        name: tuple(
            one._replace(slots=tuple(s for s in one.slots if not s.name.startswith(prefix)))
            for one in found
        )
        for name, found in groups.items()
        if name != kind
    }
