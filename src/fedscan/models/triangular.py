"""Feedback attention: the solution of (I - B) s = f with B_tj = gain_t softmax_{j < t}(q_t k_j).

Horbatko, "Sessa: Selective State Space Attention", section 3.2. B is strictly lower triangular, so
that s always exists; I - B is never inverted. One autograd function, in blocks of rows: a block has
its logits formed, its softmax taken and its part of the system solved before the next; all earlier
rows enter by one product. No square of the length is ever held, and only its lower half computed.
Numbers kept for the backward pass grow with the length: s, the attention's mean of s, and each
row's log-sum-exp; weights are kept while they are small, else formed again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows that are solved at a time. Measured on CPUs: larger blocks leave more to the triangular
# solver, smaller ones more calls.
BLOCK = 128
# Lengths up to which the weights are kept instead of formed again: their memory is then small, and
# a product over half of the square is saved.
KEPT_LENGTH = 2048


def feedback(q: Tensor, k: Tensor, gains: Tensor, f: Tensor, keep: bool | None = None) -> Tensor:
    """Return s with s_t = f_t + gain_t sum over j < t of softmax_j(q_t k_j) s_j.

    Args:
        q: queries, scaled, (batch, length, key width).
        k: keys, (batch, length, key width).
        gains: (batch, length), each below 1 in magnitude for s to stay bounded.
        f: (batch, length, width).
        keep: whether the backward pass finds the weights kept; None: up to ``KEPT_LENGTH``.

    Returns:
        (batch, length, width), in the widest dtype of the four, float32 at least.
    """
    wide = torch.float32
    for part in (q, k, gains, f):
        wide = torch.promote_types(wide, part.dtype)
    keep = f.shape[1] <= KEPT_LENGTH if keep is None else keep
    with torch.autocast(f.device.type, enabled=False):
        s: Tensor = _Feedback.apply(*(part.to(wide) for part in (q, k, gains, f)), keep)
    return s


class _Feedback(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, gains: Tensor, f: Tensor, keep: bool) -> Tensor:
        gain = gains.unsqueeze(-1)
        s, mixed = torch.empty_like(f), torch.empty_like(f)
        norms = f.new_empty(f.shape[:2])
        kept = []
        for rows in _blocks(f.shape[1]):
            first, last = rows.start, rows.stop
            logits = _logits(q, k, rows)
            norms[:, rows] = logits.logsumexp(-1)
            alpha = _weights(logits, norms, rows)
            own = alpha[..., first:]
            right = f[:, rows]
            earlier = alpha[..., :first] @ s[:, :first] if first else None
            if earlier is not None:
                right = torch.addcmul(right, gain[:, rows], earlier)
            s[:, rows] = _solved((-gain[:, rows] * own).mT, right, upper=True)
            mean = own @ s[:, first:last]
            mixed[:, rows] = mean if earlier is None else mean.add_(earlier)
            if keep:
                kept.append(alpha)
        ctx.save_for_backward(q, k, gains, norms, s, mixed, *kept)
        return s

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, slope: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, None]:
        q, k, gains, norms, s, mixed, *kept = ctx.saved_tensors
        gain = gains.unsqueeze(-1)
        # What later rows send back is added here, block by block from the end.
        of_f = slope.clone(memory_format=torch.contiguous_format)
        of_gains, of_q, of_k = torch.empty_like(gains), torch.empty_like(q), torch.zeros_like(k)
        for rows in reversed(_blocks(s.shape[1])):
            first, last = rows.start, rows.stop
            alpha = kept.pop() if kept else _weights(_logits(q, k, rows), norms, rows)
            found = _solved(-gain[:, rows] * alpha[..., first:], of_f[:, rows], upper=False)
            of_f[:, rows] = found
            if first:
                of_f[:, :first] += alpha[..., :first].mT @ (gain[:, rows] * found)
            of_gains[:, rows] = (found * mixed[:, rows]).sum(-1)
            # gain alpha_tj ( <df_t, s_j> - <df_t, sum alpha s> ): a softmax's slope, rows known.
            products = found @ s[:, :last].mT
            products -= of_gains[:, rows, None]
            products *= alpha
            products *= gain[:, rows]
            of_q[:, rows] = products @ k[:, :last]
            of_k[:, :last] += products.mT @ q[:, rows]
        return of_q, of_k, of_gains, of_f, None


def _solved(turned: Tensor, right: Tensor, upper: bool) -> Tensor:
    """Return x of (I + turned^T) x = right, as x^T (I + turned) = right^T.

    LAPACK stores columns first: so nothing is copied, in half the time or less.
    """
    found: Tensor = torch.linalg.solve_triangular(
        turned, right.mT, upper=upper, left=False, unitriangular=True
    )
    return found.mT


def _logits(q: Tensor, k: Tensor, rows: slice) -> Tensor:
    """Return the logits of some rows over all columns up to the last of them, later ones -inf."""
    first, last = rows.start, rows.stop
    logits = q[:, rows] @ k[:, :last].mT
    later = torch.ones(last - first, last - first, dtype=torch.bool, device=q.device).triu_()
    logits[..., first:].masked_fill_(later, -torch.inf)
    return logits


def _weights(logits: Tensor, norms: Tensor, rows: slice) -> Tensor:
    """Turn logits into weights, in place; row 0 of the square has no entry and is zero."""
    weights = logits.sub_(norms[:, rows, None]).exp_()
    if rows.start == 0:
        weights[:, 0] = 0
    return weights


def _blocks(length: int) -> list[slice]:
    """Return the rows that are solved at a time.

    Args:
        length: tokens.
    """
    return [slice(first, min(first + BLOCK, length)) for first in range(0, length, BLOCK)]
