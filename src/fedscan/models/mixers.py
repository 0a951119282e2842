"""Kinds of mixers: kind -> what a language model needs to know of it. A new kind is an entry."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from fedscan.models import attention, mamba2
from fedscan.models.architecture import ATTENTION, MAMBA2, Architecture
from fedscan.models.draws import reset_projections
from fedscan.models.mamba2_symmetries import Groups, mamba2_groups, no_groups


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


MIXERS: dict[str, Mixer] = {
    MAMBA2: Mixer(mamba2.make, mamba2.construct, reset_projections, mamba2_groups, True),
    ATTENTION: Mixer(attention.make, attention.construct, reset_projections, no_groups, False),
}
