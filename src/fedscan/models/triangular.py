"""Feedback attention: the solution of (I - B) s = f with B_tj = gain_t softmax_{j < t}(logits_t)_j.

Horbatko, "Sessa: Selective State Space Attention", section 3.2. B is strictly lower triangular, so
that s always exists; I - B is never inverted. One autograd function fuses softmax, gain and solve:
its backward pass needs no further pass over the logits and divides by nothing.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows that are solved at a time; all earlier ones enter by one matrix product. Measured on CPUs:
# larger blocks leave more to the triangular solver, smaller ones more calls.
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
        gain = gains.unsqueeze(-1)
        alpha, s, mixed = torch.zeros_like(logits), torch.empty_like(f), torch.empty_like(f)
        for rows in blocks(f.shape[1]):
            first, last = rows.start, rows.stop
            alpha[:, rows, :last] = _weights(logits[:, rows, :last])
            own = alpha[:, rows, rows]
            earlier = alpha[:, rows, :first] @ s[:, :first] if first else 0
            right = f[:, rows] + gain[:, rows] * earlier
            s[:, rows] = torch.linalg.solve_triangular(
                -gain[:, rows] * own, right, upper=False, unitriangular=True
            )
            mixed[:, rows] = earlier + own @ s[:, rows]
        ctx.save_for_backward(alpha, gains, s, mixed)
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        alpha, gains, s, mixed = ctx.saved_tensors
        gain = gains.unsqueeze(-1)
        of_f, weighted = torch.empty_like(s), torch.empty_like(s)
        of_gains, of_logits = torch.empty_like(gains), torch.zeros_like(alpha)
        for rows in reversed(blocks(s.shape[1])):
            last = rows.stop
            right = slope[:, rows]
            if last < s.shape[1]:
                right = right + alpha[:, last:, rows].mT @ weighted[:, last:]
            block = -(gain[:, rows] * alpha[:, rows, rows]).mT
            found = torch.linalg.solve_triangular(block, right, upper=True, unitriangular=True)
            of_f[:, rows], weighted[:, rows] = found, gain[:, rows] * found
            of_gains[:, rows] = (found * mixed[:, rows]).sum(-1)
            # gain alpha_tj ( <df_t, s_j> - <df_t, sum alpha s> ): a softmax's slope, rows known.
            products = found @ s[:, :last].mT - of_gains[:, rows, None]
            of_logits[:, rows, :last] = products.mul_(alpha[:, rows, :last]).mul_(gain[:, rows])
        return of_logits, of_gains, of_f


def blocks(length: int) -> list[slice]:
    """Return the rows that are solved at a time.

    Args:
        length: tokens.
    """
    return [slice(first, min(first + BLOCK, length)) for first in range(0, length, BLOCK)]


def _weights(logits: Tensor) -> Tensor:
    """Return the softmax over j < t of the last rows of a square; row 0 of it is zero.

    Args:
        logits: (batch, rows, columns); the last row is the square's row ``columns`` - 1.

    Returns:
        The same shape.
    """
    rows, columns = logits.shape[-2:]
    later = torch.ones(rows, columns, dtype=torch.bool, device=logits.device)
    weights = logits.masked_fill(later.triu_(columns - rows), -torch.inf).softmax(-1)
    if rows == columns:
        weights[:, 0] = 0  # it has no entry
    return weights
