"""The Mamba2 mixer in pure PyTorch, with mamba_ssm's parameter names and shapes (Dao & Gu 2024)."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.architecture import Architecture
from fedscan.models.causal_conv import causal_conv
from fedscan.models.draws import kaiming, linear
from fedscan.models.gated_norm import gated_rms_norm
from fedscan.models.ssd import ssd

# Constants of mamba_ssm's Mamba2, which no configuration of the paper changes.
DT_MIN, DT_MAX, DT_FLOOR = 1e-3, 1e-1, 1e-4
A_RANGE = (1.0, 16.0)
EPS = 1e-5


class GatedRMSNorm(nn.Module):
    """RMSNorm of y * silu(z), normalised within each group of channels."""

    def __init__(self, width: int, groups: int) -> None:
        """Create the scale; ``groups`` divides ``width``."""
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, y: Tensor, z: Tensor) -> Tensor:
        """Gate and normalise.

        Args:
            y: (batch, length, width).
            z: gate, same shape.

        Returns:
            (batch, length, width), float32 or wider.
        """
        parts = (self.groups, -1)
        grouped = (t.unflatten(-1, parts) for t in (y, z.to(y.dtype), self.weight))
        return gated_rms_norm(*grouped, EPS).flatten(-2)


class Mamba2(nn.Module):
    """Selective state-space mixer: (batch, length, d_model) -> the same shape."""

    def __init__(
        self,
        d_model: int,
        d_state: int,
        d_conv: int,
        expand: int,
        headdim: int,
        ngroups: int,
        chunk_size: int,
    ) -> None:
        """Create parameters without values; ``models.initialise`` draws them."""
        super().__init__()
        self.d_inner = expand * d_model
        self.d_state, self.headdim, self.ngroups = d_state, headdim, ngroups
        self.nheads = self.d_inner // headdim
        self.chunk_size = chunk_size
        channels = self.d_inner + 2 * ngroups * d_state
        self.in_proj = nn.Linear(d_model, self.d_inner + channels + self.nheads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, d_conv, groups=channels)
        self.dt_bias = nn.Parameter(torch.empty(self.nheads))
        self.A_log = nn.Parameter(torch.empty(self.nheads))
        self.D = nn.Parameter(torch.empty(self.nheads))
        self.norm = GatedRMSNorm(self.d_inner, ngroups)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix along the sequence.

        Args:
            hidden: (batch, length, d_model).

        Returns:
            (batch, length, d_model).
        """
        z, x, B, C, dt = self.projections(hidden)
        y = ssd(x, dt, self.decay_rates(), B, C, self.D, self.chunk_size)
        return self.out_proj(self.norm(y.flatten(2), z))

    def decay_rates(self) -> Tensor:
        """Return A, negative, (heads)."""
        return -torch.exp(self.A_log)

    def projection_blocks(self) -> dict[str, tuple[int, int]]:
        """Return the blocks of in_proj's rows: name -> (first row, number of rows)."""
        state = self.ngroups * self.d_state
        sizes = {"z": self.d_inner, "x": self.d_inner, "B": state, "C": state, "dt": self.nheads}
        firsts = itertools.accumulate(sizes.values(), initial=0)
        return {
            name: (first, size) for (name, size), first in zip(sizes.items(), firsts, strict=False)
        }

    def projections(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Compute the input-dependent quantities.

        Args:
            hidden: (batch, length, d_model).

        Returns:
            z (batch, length, d_inner); x (batch, length, heads, headdim); B and C (batch, length,
            groups, d_state); dt (batch, length, heads), at least float32.
        """
        z, mixed, dt = self.inputs(hidden)
        return (z, *self.selective(mixed, dt))

    def inputs(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project the input.

        Args:
            hidden: (batch, length, d_model).

        Returns:
            z (batch, length, d_inner); what the convolution reads, (batch, length, channels); dt
            before its bias, (batch, length, heads).
        """
        sizes = [self.d_inner, self.conv1d.in_channels, self.nheads]
        # Products by part: the backward pass then need not join three slopes into one tensor.
        z, mixed, dt = (F.linear(hidden, part) for part in self.in_proj.weight.split(sizes))
        return z, mixed, dt

    def selective(
        self, mixed: Tensor, dt: Tensor, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Convolve, and split into what the recurrence takes.

        Args:
            mixed: (batch, length, channels).
            dt: before its bias, (batch, length, heads).
            before: ``mixed`` of the d_conv - 1 positions before; None: the sequence starts here.

        Returns:
            x, B, C and dt as in ``projections``.
        """
        sizes = [self.d_inner, *2 * [self.ngroups * self.d_state]]
        x, B, C = causal_conv(mixed, self.conv1d.weight, self.conv1d.bias, sizes, before)
        # Step sizes and decays stay in float32 under autocast, as in mamba_ssm's kernels.
        dt = F.softplus(dt.to(self.dt_bias.dtype) + self.dt_bias)
        return (
            x.unflatten(-1, (self.nheads, self.headdim)),
            B.unflatten(-1, (self.ngroups, self.d_state)),
            C.unflatten(-1, (self.ngroups, self.d_state)),
            dt,
        )


def make(shape: Architecture) -> Mamba2:
    """Return a mixer without values.

    Args:
        shape: architecture.
    """
    return Mamba2(
        shape.d_model,
        shape.d_state,
        shape.d_conv,
        shape.expand,
        shape.headdim,
        shape.ngroups,
        shape.chunk_size,
    )


def construct(mixer: nn.Module, generator: torch.Generator) -> None:
    """Draw what mamba_ssm's constructor draws, in its order.

    Args:
        mixer: a ``Mamba2``, filled in place.
        generator: source of randomness.
    """
    linear(mixer.in_proj, generator)
    kaiming(mixer.conv1d.weight, generator)
    bound = 1 / math.sqrt(mixer.conv1d.weight.shape[-1])
    mixer.conv1d.bias.uniform_(-bound, bound, generator=generator)
    mixer.dt_bias.copy_(draw_dt_bias(mixer.nheads, generator))
    mixer.A_log.copy_(draw_a_log(mixer.nheads, generator))
    mixer.D.fill_(1.0)
    mixer.norm.weight.fill_(1.0)
    linear(mixer.out_proj, generator)


def draw_dt_bias(heads: int, generator: torch.Generator) -> Tensor:
    """Draw step-size biases: softplus(bias) is log-uniform in [DT_MIN, DT_MAX].

    Args:
        heads: number of heads.
        generator: source of randomness; one uniform draw per head.

    Returns:
        (heads) float32.
    """
    uniform = torch.rand(heads, generator=generator)
    dt = torch.exp(uniform * (math.log(DT_MAX) - math.log(DT_MIN)) + math.log(DT_MIN))
    dt = torch.clamp(dt, min=DT_FLOOR)
    return dt + torch.log(-torch.expm1(-dt))


def draw_a_log(heads: int, generator: torch.Generator) -> Tensor:
    """Draw log decay rates: exp(A_log) is uniform in A_RANGE.

    Args:
        heads: number of heads.
        generator: source of randomness; one uniform draw per head.

    Returns:
        (heads) float32.
    """
    return torch.log(torch.empty(heads).uniform_(*A_RANGE, generator=generator))
