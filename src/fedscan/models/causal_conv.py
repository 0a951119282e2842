"""Causal depthwise convolution with a backward pass of its own on CPUs.

torch's backward of a depthwise convolution takes a third of a mixer's time there. Its input
gradient is a convolution again, and its weight gradient one small matrix product per channel.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor, before: Tensor | None = None) -> Tensor:
    """Convolve each channel with the present and earlier positions.

    Args:
        x: (batch, length, channels).
        weight: (channels, 1, taps); the last tap meets the present position.
        bias: (channels).
        before: the taps - 1 positions before, (batch, taps - 1, channels); None: there are none.

    Returns:
        (batch, length, channels); in the dtype of autocast, where it is on.
    """
    if before is not None:
        return _forward(torch.cat([before, x], dim=1).transpose(1, 2), weight, bias)
    if x.device.type == "cpu":
        convolved: Tensor = _CausalConv.apply(x, weight, bias)
        return convolved
    return _forward(_padded(x, weight), weight, bias)


def _padded(x: Tensor, weight: Tensor) -> Tensor:
    # Padding on the left alone: cutting a symmetric padding off again costs more.
    return F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))


def _forward(padded: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.conv1d(padded, weight, bias, groups=len(weight)).transpose(1, 2)


class _CausalConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        padded = _padded(x, weight)
        ctx.save_for_backward(padded, weight)
        return _forward(padded, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        padded, weight = ctx.saved_tensors
        taps, length = weight.shape[-1], slope.shape[1]
        slope = slope.transpose(1, 2).contiguous()
        ahead = F.pad(slope, (0, taps - 1))
        kernel = weight.flip(-1).to(slope.dtype)
        of_x = F.conv1d(ahead, kernel, groups=len(weight)).transpose(1, 2)
        # Sums over batch and length in the precision of the parameters.
        wide = slope.to(weight.dtype)
        windows = padded.to(weight.dtype).unfold(2, length, 1)
        of_weight = (windows @ wide.unsqueeze(-1)).sum(0).transpose(1, 2)
        return of_x.to(padded.dtype), of_weight, wide.sum((0, 2))
