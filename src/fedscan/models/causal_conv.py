"""Causal depthwise convolution and its SiLU, with a backward pass of their own on CPUs.

There a library convolution wants channels before positions, and the transposes, the padding and
the activation's backward pass over two layouts cost several times the few products per entry. A
tap at a time, in the layout that the layer has anyway, all operations run at the speed of memory.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def causal_conv(
    x: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], before: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Convolve each channel with the present and earlier positions, apply SiLU, and split.

    Args:
        x: (batch, length, channels).
        weight: (channels, 1, taps); the last tap meets the present position.
        bias: (channels).
        sizes: channels of the parts.
        before: the taps - 1 positions before, (batch, taps - 1, channels); None: there are none.

    Returns:
        The parts, (batch, length, size); in the dtype of ``x``, on GPUs and after ``before`` in
        that of autocast, where it is on.
    """
    if before is not None:
        return _library(torch.cat([before, x], dim=1).transpose(1, 2), weight, bias, sizes)
    if x.device.type == "cpu":
        parts: tuple[Tensor, ...] = _CausalConv.apply(x, weight, bias, sizes)
        return parts
    padded = F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return _library(padded, weight, bias, sizes)


def _library(padded: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
    convolved = F.conv1d(padded, weight, bias, groups=len(weight)).transpose(1, 2)
    return F.silu(convolved).split(sizes, dim=-1)


class _CausalConv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]
    ) -> tuple[Tensor, ...]:
        wide = x.to(weight.dtype)  # sums in the precision of the parameters
        taps = _taps(weight)
        y = torch.addcmul(bias, wide, taps[0])
        for back in range(1, min(len(taps), x.shape[1])):
            y[:, back:].addcmul_(wide[:, :-back], taps[back])
        ctx.save_for_backward(x, weight, y)
        ctx.sizes = sizes
        return tuple(F.silu(part).to(x.dtype) for part in y.split(sizes, dim=-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, y = ctx.saved_tensors
        wide, taps = x.to(weight.dtype), _taps(weight)
        slope = torch.empty_like(y)
        whole = (slope.split(ctx.sizes, dim=-1), slopes, y.split(ctx.sizes, dim=-1))
        for part, given, at in zip(*whole, strict=True):
            torch.ops.aten.silu_backward.grad_input(given.to(y.dtype), at, grad_input=part)
        of_x = slope * taps[0]
        of_taps = torch.zeros_like(taps)
        of_taps[0] = (slope * wide).sum((0, 1))
        for back in range(1, min(len(taps), x.shape[1])):
            of_x[:, :-back].addcmul_(slope[:, back:], taps[back])
            of_taps[back] = (slope[:, back:] * wide[:, :-back]).sum((0, 1))
        of_weight = of_taps.flip(0).t().contiguous().unsqueeze(1)
        return of_x.to(x.dtype), of_weight, slope.sum((0, 1)), None


def _taps(weight: Tensor) -> Tensor:
    """Return rows of channels, the present position's first: (taps, channels)."""
    return weight.squeeze(1).flip(-1).t().contiguous()
