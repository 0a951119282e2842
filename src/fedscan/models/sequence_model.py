"""A model of tokens whose layers differ in the mixer alone: embedding, x + layer(LN x), LN, head.

The comparison of Horbatko, "Sessa: Selective State Space Attention", section 5. Neither the paper
nor the released code says what embedding and head are: those here are ours.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedscan.models import gated_mamba2, mamba2, sessa
from fedscan.models.draws import kaiming
from fedscan.models.sequence_shape import D_CONV, EXPAND, NGROUPS, SequenceShape

CHUNK = 64
TIED_STD = 0.02


class Layer(NamedTuple):
    """How a kind of layer is made, and how its initial values are drawn."""

    make: Callable[[SequenceShape], nn.Module]
    construct: Callable[[nn.Module, torch.Generator], None]


def _sessa(**switched: bool) -> Layer:
    def make(shape: SequenceShape) -> nn.Module:
        return sessa.Sessa(
            shape.d_model, shape.forward_heads, shape.form, shape.gain_max, **switched
        )

    return Layer(make, sessa.construct)


def _attention(shape: SequenceShape) -> nn.Module:
    return sessa.Sessa(shape.d_model, shape.heads, shape.form, loop=False)


def _mamba2(shape: SequenceShape) -> mamba2.Mamba2:
    return mamba2.Mamba2(
        shape.d_model, shape.d_state, D_CONV, EXPAND, shape.headdim, NGROUPS, CHUNK
    )


def _gated_mamba2(shape: SequenceShape) -> nn.Module:
    return gated_mamba2.GatedMamba2(shape.d_model, _mamba2(shape))


# Kind -> layer; ``sequence_shape.KINDS`` has the same keys.
LAYERS: dict[str, Layer] = {
    "sessa": _sessa(),
    "sessa_no_feedback": _sessa(loop=False),
    "sessa_fixed_gain": _sessa(selective_gain=False),
    "sessa_uniform": _sessa(selective_routing=False),
    "sessa_rope_feedback": _sessa(feedback_rotary=True),
    "mha": Layer(_attention, sessa.construct),
    "mamba2": Layer(_gated_mamba2, gated_mamba2.construct),
    "mamba2_plain": Layer(_mamba2, mamba2.construct),
}


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, shape: SequenceShape) -> None:
        """Create the norm and the layer."""
        super().__init__()
        self.norm = nn.LayerNorm(shape.d_model)
        self.layer = LAYERS[shape.mixer].make(shape)

    def forward(self, residual: Tensor) -> Tensor:
        """Add the layer's output.

        Args:
            residual: (batch, length, d_model).

        Returns:
            The same shape and dtype.
        """
        return residual + self.layer(self.norm(residual)).to(residual.dtype)


class SequenceModel(nn.Module):
    """Causal model of tokens; ``forward`` gives hidden states, ``logits`` those of some."""

    def __init__(self, shape: SequenceShape) -> None:
        """Create the model without values."""
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.d_model)
        self.head = nn.Linear(shape.d_model, shape.vocab_size, bias=False)
        if shape.tied_head:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return the final hidden states.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            (batch, length, d_model), normalised.
        """
        residual = self.embedding(ids)
        for block in self.blocks:
            residual = block(residual)
        return self.norm(residual)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits over the vocabulary.

        Args:
            hidden: (..., d_model).

        Returns:
            (..., vocabulary).
        """
        return self.head(hidden)


def initialise(shape: SequenceShape, seed: int) -> SequenceModel:
    """Create a model with initial values.

    Args:
        shape: of the model.
        seed: of its values.

    Returns:
        The model on the CPU in float32: embedding N(0, 1) with a head of its own, N(0, 0.02^2) if
        it is the head; layers as their kind draws them.
    """
    generator = torch.Generator().manual_seed(seed)
    # Constructors draw from the global generator.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = SequenceModel(shape)
        std = TIED_STD if shape.tied_head else 1.0
        model.embedding.weight.normal_(std=std, generator=generator)
        for block in model.blocks:
            LAYERS[shape.mixer].construct(block.layer, generator)
        if not shape.tied_head:
            kaiming(model.head.weight, generator)
    return model
