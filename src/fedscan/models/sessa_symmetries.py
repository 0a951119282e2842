"""Reorderings of a Sessa layer's features that leave its function unchanged."""

from fedscan.params.permutation import Groups, PermutationGroup, Slot


def sessa_groups(
    prefix: str, layer: int, d_model: int, heads: int, *, loop: bool = True, bias: bool = True
) -> Groups:
    """Return the permutation groups of one layer.

    ``state``: coordinates of the feedback's queries and keys, which meet only in their inner
    product. ``heads``: heads of the forward attention, with everything indexed by head. ``gate``:
    coordinates of s and of the gate that multiplies it. ``inner``: coordinates of what all
    projections read.

    Args:
        prefix: how the names of the layer's tensors begin.
        layer: from 0, for labels.
        d_model: width D.
        heads: of the forward attention.
        loop: whether there is the feedback.
        bias: whether queries, keys and values have biases.

    Returns:
        Kind -> groups; no ``heads`` where there is one, no ``state`` without the loop.
    """

    def rows(name: str, start: int, width: int, biased: bool) -> list[Slot]:
        kinds = ("weight", "bias") if biased else ("weight",)
        return [Slot(f"{prefix}{name}.{kind}", 0, start, width) for kind in kinds]

    def columns(name: str) -> Slot:
        return Slot(f"{prefix}{name}.weight", 1, 0, 1)

    def group(kind: str, size: int, slots: list[Slot]) -> tuple[PermutationGroup, ...]:
        return (PermutationGroup(f"layer {layer} {kind}", size, tuple(slots)),)

    found: Groups = {}
    if loop:
        slots = [s for start in (0, d_model) for s in rows("feedback_proj", start, 1, bias)]
        found["state"] = group("state", d_model, slots)
    if heads > 1:
        width = d_model // heads
        slots = [s for name in "qkv" for s in rows(f"{name}_proj", 0, width, bias)]
        slots.append(Slot(f"{prefix}forward_proj.weight", 1, 0, width))
        found["heads"] = group("heads", heads, slots)
    # With one head s has the order of the values, which no projection follows.
    of_s = rows("forward_proj", 0, 1, False) if heads > 1 else rows("v_proj", 0, 1, bias)
    gate = [*rows("in_proj", d_model, 1, True), *of_s, columns("out_proj")]
    found["gate"] = group("gate", d_model, gate)
    readers = ["q_proj", "k_proj", "v_proj", *(("feedback_proj", "gain_proj") if loop else ())]
    inner = [*rows("in_proj", 0, 1, True), *(columns(name) for name in readers)]
    found["inner"] = group("inner", d_model, inner)
    return found
