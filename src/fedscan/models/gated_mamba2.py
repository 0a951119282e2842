"""Mamba2 where Sessa's layer has its own mixer: W_out(Mamba2(GELU(a)) * g), [a | g] = W_in u."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models import mamba2
from fedscan.models.draws import linear


class GatedMamba2(nn.Module):
    """Gated layer around a Mamba2 mixer: (batch, length, d_model) -> the same shape."""

    def __init__(self, d_model: int, mixer: mamba2.Mamba2) -> None:
        """Create the projections without values around ``mixer`` of the same width."""
        super().__init__()
        self.in_proj = nn.Linear(d_model, 2 * d_model)
        self.mixer = mixer
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix along the sequence.

        Args:
            hidden: normalised, (batch, length, d_model).

        Returns:
            (batch, length, d_model).
        """
        inner, gate = self.in_proj(hidden).chunk(2, dim=-1)
        return self.out_proj(self.mixer(F.gelu(inner)) * gate)


def construct(layer: nn.Module, generator: torch.Generator) -> None:
    """Draw initial values: projections as Sessa's layer, the mixer as mamba_ssm's.

    Args:
        layer: a ``GatedMamba2``, filled in place.
        generator: source of randomness.
    """
    linear(layer.in_proj, generator)
    mamba2.construct(layer.mixer, generator)
    linear(layer.out_proj, generator)
