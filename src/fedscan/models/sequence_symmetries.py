"""Reorderings of a sequence model's features that leave its function unchanged."""

from collections.abc import Callable

from fedscan.models.mamba2_symmetries import mamba2_groups
from fedscan.models.sequence_shape import EXPAND, NGROUPS, SequenceShape
from fedscan.models.sessa_symmetries import sessa_groups
from fedscan.params.permutation import Groups, joined

# (shape, how the layer's names begin, layer) -> its groups.
OfLayer = Callable[[SequenceShape, str, int], Groups]


def _sessa(loop: bool = True, without: str = "", turned: bool = False) -> OfLayer:
    """Return the groups of Sessa less the slots of one module, or with a rotary loop."""

    def groups(shape: SequenceShape, prefix: str, layer: int) -> Groups:
        bias = shape.form == "authors"
        found = sessa_groups(
            prefix, layer, shape.d_model, shape.forward_heads, loop=loop, bias=bias
        )
        if turned:
            # Rotary positions tell coordinates apart.
            del found["state"]
        kept = {
            kind: tuple(
                one._replace(slots=tuple(s for s in one.slots if s.name.split(".")[-2] != without))
                for one in of_kind
            )
            for kind, of_kind in found.items()
        }
        return {kind: of_kind for kind, of_kind in kept.items() if of_kind[0].slots}

    return groups


def _attention(shape: SequenceShape, prefix: str, layer: int) -> Groups:
    return _sessa(loop=False)(shape._replace(forward_heads=shape.heads), prefix, layer)


def _mamba2(inside: str) -> OfLayer:
    def groups(shape: SequenceShape, prefix: str, layer: int) -> Groups:
        inner = EXPAND * shape.d_model
        return mamba2_groups(prefix + inside, layer, inner, shape.d_state, shape.headdim, NGROUPS)

    return groups


# ``sequence_shape.KINDS`` has the same keys.
GROUPS: dict[str, OfLayer] = {
    "sessa": _sessa(),
    "sessa_no_feedback": _sessa(loop=False),
    "sessa_fixed_gain": _sessa(without="gain_proj"),
    "sessa_uniform": _sessa(without="feedback_proj"),
    "sessa_rope_feedback": _sessa(turned=True),
    "mha": _attention,
    "mamba2": _mamba2("mixer."),
    "mamba2_plain": _mamba2(""),
}


def permutation_groups(shape: SequenceShape) -> Groups:
    """Return the permutation groups of every layer.

    Args:
        shape: of the model.

    Returns:
        Kind -> groups, in layer order; ``state`` and ``heads`` are always there.
    """
    of_layer = GROUPS[shape.mixer]
    return joined(of_layer(shape, f"blocks.{i}.layer.", i) for i in range(shape.depth))
