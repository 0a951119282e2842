"""Layers whose weights are drawn anew, for the iteration over depth with random weights.

The paper does not give the law of its random weights. ``mamba_ssm`` is the law of the model's own
initial values; ``gaussian`` has the same variances' order and no bound. The analysed model's
weights have the variance of entries that are uniform between -1/sqrt(n) and 1/sqrt(n).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedscan.models.analysed_ssm import AnalysedLayer
from fedscan.models.architecture import Architecture
from fedscan.models.depth_iteration import MixerLayer
from fedscan.models.mamba2 import draw_a_log, draw_dt_bias

# (rows, fan_in, layers that add up, generator) -> (rows, fan_in).
Law = Callable[[int, int, int, torch.Generator], Tensor]


def _uniform(rows: int, fan_in: int, layers: int, generator: torch.Generator) -> Tensor:
    bound = 1 / math.sqrt(fan_in * layers)
    return torch.empty(rows, fan_in).uniform_(-bound, bound, generator=generator)


def _gaussian(rows: int, fan_in: int, _layers: int, generator: torch.Generator) -> Tensor:
    return torch.empty(rows, fan_in).normal_(std=1 / math.sqrt(fan_in), generator=generator)


LAWS: dict[str, Law] = {"mamba_ssm": _uniform, "gaussian": _gaussian}


def redrawn_mixer(
    shape: Architecture, law: str, generator: torch.Generator, dtype: torch.dtype
) -> MixerLayer:
    """Draw one Mamba2 layer.

    Args:
        shape: architecture; its number of layers scales the output projection of ``mamba_ssm``.
        law: of the two projections, a key of ``LAWS``; everything else has mamba_ssm's.
        generator: on the CPU.
        dtype: of the result; values are drawn in float32.

    Returns:
        The layer on the CPU.
    """
    inner = shape.expand * shape.d_model
    heads, channels = inner // shape.headdim, inner + 2 * shape.ngroups * shape.d_state
    draw = LAWS[law]
    gate = draw(inner, shape.d_model, 1, generator)
    selective = draw(channels + heads, shape.d_model, 1, generator)
    taps = 1 / math.sqrt(shape.d_conv)
    conv = torch.empty(channels, 1, shape.d_conv).uniform_(-taps, taps, generator=generator)
    bias = torch.empty(channels).uniform_(-taps, taps, generator=generator)
    dt_bias = draw_dt_bias(heads, generator)
    decay_rates = -torch.exp(draw_a_log(heads, generator))
    out = draw(shape.d_model, inner, shape.depth, generator)
    return MixerLayer(
        norm=torch.ones(shape.d_model, dtype=dtype),
        gate=gate.to(dtype),
        selective=selective.to(dtype),
        conv_weight=conv.to(dtype),
        conv_bias=bias.to(dtype),
        dt_bias=dt_bias.to(dtype),
        decay_rates=decay_rates.to(dtype),
        skip=torch.ones(heads, dtype=dtype),
        gated_norm=torch.ones(inner, dtype=dtype),
        out=out.to(dtype),
        groups=shape.ngroups,
        d_state=shape.d_state,
        chunk=shape.chunk_size,
    )


def redrawn_analysed(
    channels: int, d_state: int, generator: torch.Generator, dtype: torch.dtype
) -> AnalysedLayer:
    """Draw one layer of the analysed model, for tokens of root mean square 1.

    Args:
        channels: n; step sizes and decay rates are per channel.
        d_state: m.
        generator: on the CPU.
        dtype: of the result; values are drawn in float32.

    Returns:
        S_B, S_C and W_Delta with entries N(0, 1/(3n)), alpha uniform in [1, 16], softplus(b)
        log-uniform in [0.001, 0.1]; on the CPU.
    """

    def entries(rows: int) -> Tensor:
        std = 1 / math.sqrt(3 * channels)
        return torch.empty(rows, channels).normal_(std=std, generator=generator).to(dtype)

    S_B, S_C, W_delta = entries(d_state), entries(d_state), entries(channels)
    return AnalysedLayer(
        alpha=torch.exp(draw_a_log(channels, generator)).to(dtype),
        W_delta=W_delta,
        b_delta=draw_dt_bias(channels, generator).to(dtype),
        S_B=S_B,
        S_C=S_C,
    )
