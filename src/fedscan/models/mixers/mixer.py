"""What a language model needs to know of one kind of mixer."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from fedscan.models.architecture import Architecture
from fedscan.params.permutation import Groups


class Mixer(NamedTuple):
    """One kind.

    Attributes:
        make: creates the module without values: (batch, length, d_model) -> the same shape.
        construct: draws what its constructor draws, in mamba_ssm's order.
        reset: (mixer, layers of the model, generator): draws what a whole model's does.
        groups: (shape, layer) -> reorderings of its features that change nothing, by kind.
        continues: whether a prompt's past is a state that labels continue from.
    """

    make: Callable[[Architecture], nn.Module]
    construct: Callable[[nn.Module, torch.Generator], None]
    reset: Callable[[nn.Module, int, torch.Generator], None]
    groups: Callable[[Architecture, int], Groups]
    continues: bool


def prefix(layer: int) -> str:
    """Return how the names of a layer's tensors begin in a language model.

    Args:
        layer: from 0.
    """
    return f"backbone.layers.{layer}.mixer."
