"""Feedback attention: the solution of (I - B) s = f with B_tj = gain_t softmax_{j < t}(logits_t)_j.

Horbatko, "Sessa: Selective State Space Attention", section 3.2. B is strictly lower triangular, so
that s always exists; I - B is never inverted. One autograd function fuses softmax, gain and solve:
its backward pass needs no further pass over the logits and divides by nothing.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# From this length on, blocks of BLOCK rows are solved in turn: matrix products then dominate.
BLOCKED_FROM = 1024
BLOCK = 128


def feedback(logits: Tensor, gains: Tensor, f: Tensor) -> Tensor:
    """Return s with s_t = f_t + gain_t sum over j < t of alpha_tj s_j.

    Args:
        logits: (batch, length, length), scaled; entries with j >= t are not read.
        gains: (batch, length), each below 1 in magnitude for s to stay bounded.
        f: (batch, length, width).

    Returns:
        (batch, length, width), in the widest dtype of the three, float32 at least.
    """
    wide = torch.promote_types(torch.promote_types(logits.dtype, f.dtype), torch.float32)
    with torch.autocast(f.device.type, enabled=False):
        s: Tensor = _Feedback.apply(logits.to(wide), gains.to(wide), f.to(wide))
    return s


class _Feedback(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, gains: Tensor, f: Tensor) -> Tensor:
        alpha = _rows(logits)
        s = _solve(gains.unsqueeze(-1) * alpha, f)
        mixed = alpha @ s
        ctx.save_for_backward(alpha, gains, s, mixed)
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        alpha, gains, s, mixed = ctx.saved_tensors
        gain = gains.unsqueeze(-1)
        of_f = _solve_transposed(gain * alpha, slope)
        of_gains = (of_f * mixed).sum(-1)
        # With alpha_tj ( <df_t, s_j> - <df_t, sum alpha s> ): a softmax's slope, rows known.
        of_logits = torch.baddbmm(
            of_gains.unsqueeze(-1).expand_as(alpha), of_f, s.transpose(1, 2), beta=-1
        )
        return of_logits.mul_(alpha).mul_(gain), of_gains, of_f


def _rows(logits: Tensor) -> Tensor:
    """Return the softmax over j < t of every row; row 0 is zero."""
    length = logits.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu()
    masked = logits.masked_fill(later, -torch.inf)
    largest = masked.amax(-1, keepdim=True)
    # Row 0 has no entry: its largest is minus infinity, and its difference would be no number.
    largest[:, 0] = 0
    rows = masked.sub_(largest).exp_()
    total = rows.sum(-1, keepdim=True)
    total[:, 0] = 1
    return rows.div_(total)


def _solve(B: Tensor, f: Tensor) -> Tensor:
    """Return (I - B)^-1 f; only the strict lower part of B is read."""
    length = f.shape[1]
    if length < BLOCKED_FROM:
        return torch.linalg.solve_triangular(-B, f, upper=False, unitriangular=True)
    s = torch.empty_like(f)
    for first in range(0, length, BLOCK):
        last = min(first + BLOCK, length)
        right = f[:, first:last]
        if first:
            right = torch.baddbmm(right, B[:, first:last, :first], s[:, :first])
        block = -B[:, first:last, first:last]
        s[:, first:last] = torch.linalg.solve_triangular(
            block, right, upper=False, unitriangular=True
        )
    return s


def _solve_transposed(B: Tensor, u: Tensor) -> Tensor:
    """Return (I - B)^-T u."""
    length = u.shape[1]
    if length < BLOCKED_FROM:
        turned = -B.transpose(1, 2)
        return torch.linalg.solve_triangular(turned, u, upper=True, unitriangular=True)
    found = torch.empty_like(u)
    for first in reversed(range(0, length, BLOCK)):
        last = min(first + BLOCK, length)
        right = u[:, first:last]
        if last < length:
            below = B[:, last:, first:last].transpose(1, 2)
            right = torch.baddbmm(right, below, found[:, last:])
        block = -B[:, first:last, first:last].transpose(1, 2)
        found[:, first:last] = torch.linalg.solve_triangular(
            block, right, upper=True, unitriangular=True
        )
    return found
