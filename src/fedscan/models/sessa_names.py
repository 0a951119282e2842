"""Names of a Sessa block's tensors: this package's, and the released implementation's.

The released code turns neighbouring coordinates by one angle, this package a head's two halves:
the same function up to the order of queries' and keys' coordinates within each head.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

# Ours, of a block with its norm -> theirs.
NAMES = {
    "norm": "ln",
    "layer.in_proj": "W_in",
    "layer.q_proj": "mixer.q_proj",
    "layer.k_proj": "mixer.k_proj",
    "layer.v_proj": "mixer.v_proj",
    "layer.forward_proj": "mixer.out_proj",
    "layer.feedback_proj": "mixer.proj_fb",
    "layer.gain_proj": "mixer.gamma_ctx",
    "layer.gain_bias": "mixer.gamma_bias",
    "layer.out_proj": "W_out",
}
ROTARY = ("layer.q_proj", "layer.k_proj")
# A buffer of theirs that follows from the sizes.
IGNORED = "rope_inv_freq"


def from_authors(state: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return a block's tensors under this package's names.

    Args:
        state: state dict of the released ``SessaLayer``.
        heads: of its forward attention.

    Returns:
        Names of ``models.sequence_model.Block`` with Sessa's layer.

    Raises:
        ValueError: if a tensor is not known, one is missing, or the width does not divide.
    """
    ours = {theirs: name for name, theirs in NAMES.items()}
    found = {}
    for name, tensor in state.items():
        if IGNORED in name:
            continue
        head, kind = _split(name, ours)
        mine = ours[head]
        found[mine + kind] = _reordered(tensor, heads, _halves) if mine in ROTARY else tensor
    wanted = {name for name in NAMES if name != "layer.forward_proj" or heads > 1}
    missing = sorted(wanted - {_split(name, NAMES)[0] for name in found})
    if missing:
        raise ValueError(f"no {NAMES[missing[0]]!r} in the state dict of {heads} head(s)")
    return found


def to_authors(params: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return a block's tensors under the released implementation's names.

    Args:
        params: tensors of ``models.sequence_model.Block`` with Sessa's layer.
        heads: of its forward attention.

    Returns:
        Content from which ``from_authors`` gives ``params`` again.
    """
    found = {}
    for name, tensor in params.items():
        head, kind = _split(name, NAMES)
        moved = _reordered(tensor, heads, _neighbours) if head in ROTARY else tensor
        found[NAMES[head] + kind] = moved
    return found


def _split(name: str, known: Mapping[str, str]) -> tuple[str, str]:
    """Return the module's name and what follows it: '.weight', '.bias' or nothing."""
    for ending in (".weight", ".bias", ""):
        head = name.removesuffix(ending)
        if name.endswith(ending) and head in known:
            return head, ending
    raise ValueError(f"{name!r} is no tensor of a Sessa block; known: {', '.join(known)}")


def _halves(width: int) -> Tensor:
    """Neighbours (2r, 2r + 1) to r and r + width / 2."""
    return torch.arange(width).view(-1, 2).T.reshape(-1)


def _neighbours(width: int) -> Tensor:
    return torch.arange(width).view(2, -1).T.reshape(-1)


def _reordered(tensor: Tensor, heads: int, order: Callable[[int], Tensor]) -> Tensor:
    rows = len(tensor)
    if rows % (2 * heads):
        raise ValueError(f"queries of width {rows} do not divide into {heads} heads of even width")
    width = rows // heads
    starts = torch.arange(heads)[:, None] * width
    return tensor[(starts + order(width)).reshape(-1)]
