"""Draws of torch's and mamba_ssm's constructors, from a generator of one's own."""

import math

import torch
from torch import Tensor, nn


def kaiming(weight: Tensor, generator: torch.Generator) -> None:
    """Draw a weight as nn.Linear and nn.Conv1d do: uniform, 1/sqrt(fan-in).

    Args:
        weight: filled in place.
        generator: source of randomness.
    """
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)


def linear(layer: nn.Linear, generator: torch.Generator) -> None:
    """Draw what nn.Linear's constructor draws.

    Args:
        layer: filled in place.
        generator: source of randomness.
    """
    kaiming(layer.weight, generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.in_features)
        layer.bias.uniform_(-bound, bound, generator=generator)


def reset_projections(mixer: nn.Module, depth: int, generator: torch.Generator) -> None:
    """Redraw the output projection, scaled by 1/sqrt(depth), and zero biases, as mamba_ssm does.

    Args:
        mixer: has in_proj and out_proj.
        depth: layers of the model.
        generator: source of randomness.
    """
    for projection in (mixer.in_proj, mixer.out_proj):
        if projection.bias is not None:
            projection.bias.zero_()
    kaiming(mixer.out_proj.weight, generator)
    mixer.out_proj.weight /= math.sqrt(depth)
