"""Causal multi-head attention with rotary positions, mamba_ssm's ``MHA`` names and shapes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.architecture import Architecture
from fedscan.models.draws import linear

ROTARY_BASE = 10000.0


class Attention(nn.Module):
    """Attention mixer: (batch, length, d_model) -> the same shape; biases, no MLP."""

    def __init__(self, d_model: int, heads: int) -> None:
        """Create parameters without values; ``heads`` divides ``d_model`` into even widths."""
        super().__init__()
        self.heads, self.head_dim = heads, d_model // heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        """Attend to earlier positions.

        Args:
            hidden: (batch, length, d_model).

        Returns:
            (batch, length, d_model).
        """
        qkv = self.in_proj(hidden).unflatten(-1, (3, self.heads, self.head_dim))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


def make(shape: Architecture) -> Attention:
    """Return a mixer without values.

    Args:
        shape: architecture.
    """
    return Attention(shape.d_model, shape.attention_heads)


def construct(mixer: nn.Module, generator: torch.Generator) -> None:
    """Draw what mamba_ssm's constructor draws, in its order.

    Args:
        mixer: an ``Attention``, filled in place.
        generator: source of randomness.
    """
    linear(mixer.in_proj, generator)
    linear(mixer.out_proj, generator)


def rotate(x: Tensor, first: int = 0) -> Tensor:
    """Apply rotary position embedding over the full head width, halves paired (NeoX style).

    Args:
        x: queries or keys, (batch, heads, length, head_dim).
        first: position of the first of them.

    Returns:
        The same shape and dtype; angles are computed in float32.
    """
    length, width = x.shape[-2:]
    exponents = torch.arange(0, width, 2, dtype=torch.float32, device=x.device) / width
    positions = torch.arange(first, first + length, dtype=torch.float32, device=x.device)
    angles = torch.outer(positions, 1.0 / ROTARY_BASE**exponents)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
