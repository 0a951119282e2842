"""The state-space dual form of the Mamba2 recurrence, in chunks (Dao & Gu 2024, section 6).

Within a chunk the recurrence is a masked matrix product; between chunks a state of size
headdim x d_state is carried. Cost is linear in length. ``B`` and ``C`` are shared by the heads of
a group, so C B^T is computed once per group and the state products are single matrix products
over all heads of a group.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def ssd(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, chunk: int) -> Tensor:
    """Compute y_t = C_t h_t + D x_t with h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_t^T, h_0 = 0.

    Args:
        x: inputs, (batch, length, heads, headdim).
        dt: step sizes, positive, (batch, length, heads), float32 or float64.
        A: decay rates, negative, (heads).
        B: input maps, (batch, length, groups, d_state).
        C: output maps, (batch, length, groups, d_state).
        D: skip weights, (heads).
        chunk: chunk length; changes rounding only.

    Returns:
        Outputs, (batch, length, heads, headdim), in the dtype of ``dt``.
    """
    batch, length, heads, headdim = x.shape
    groups, state = B.shape[2:]
    per_group = heads // groups
    chunk = min(chunk, length)
    pad = -length % chunk
    inputs = x
    if pad:
        # A padded step has dt = 0: it neither decays nor feeds the state.
        x, dt, B, C = (_pad_length(t, pad) for t in (x, dt, B, C))
    chunks = (length + pad) // chunk

    decay = (dt * A).view(batch, chunks, chunk, groups, per_group)
    total = decay.cumsum(2)
    # Positions stay before heads: all heads' channels of a position are then one row, and only the
    # products within a chunk, which differ between heads, need another order.
    u = (x * dt[..., None]).view(batch, chunks, chunk, groups, per_group, headdim)
    B = B.view(batch, chunks, chunk, groups, state).transpose(2, 3)
    C = C.view(batch, chunks, chunk, groups, state).transpose(2, 3)

    scores = (C @ B.transpose(-1, -2)).unsqueeze(3)
    within = _Decayed.apply(scores.to(u.dtype), total.permute(0, 1, 3, 4, 2).contiguous())
    y = (within @ u.permute(0, 1, 3, 4, 2, 5)).permute(0, 1, 4, 2, 3, 5)
    if chunks > 1:
        y = _across_chunks(u, B, C, total) + y
    y = y.reshape(batch, length + pad, heads, headdim)
    # Slicing nothing off would still cost a copy of zeros in the backward pass.
    return torch.addcmul(y[:, :length] if pad else y, inputs, D[:, None])


def _pad_length(tensor: Tensor, pad: int) -> Tensor:
    return F.pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, pad))


class _Decayed(torch.autograd.Function):
    """scores_ij exp(sum of decays over (j, i]) for j <= i, else 0; fewer passes than autograd."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, total: Tensor) -> Tensor:
        """Take scores (..., 1, chunk, chunk) and cumulative log decays (..., heads, chunk)."""
        chunk = total.shape[-1]
        # Masked before the exponential: above the diagonal it could overflow.
        upper = torch.ones(chunk, chunk, dtype=torch.bool, device=total.device).triu_(1)
        difference = total.unsqueeze(-1) - total.unsqueeze(-2)
        decay = difference.masked_fill_(upper, float("-inf")).exp_()
        decayed = scores * decay
        ctx.save_for_backward(decay, decayed)
        return decayed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        """A decay's slope counts at its end and, negative, at its start."""
        decay, decayed = ctx.saved_tensors
        of_scores = (slope * decay).sum(-3, keepdim=True)
        moved = slope * decayed
        return of_scores, moved.sum(-1) - moved.sum(-2)


def _across_chunks(u: Tensor, B: Tensor, C: Tensor, total: Tensor) -> Tensor:
    """Return the contribution of earlier chunks.

    Args:
        u: x dt, (batch, chunks, chunk, groups, heads, headdim).
        B: input maps, (batch, chunks, groups, chunk, d_state).
        C: output maps, like B.
        total: cumulative log decays, (batch, chunks, chunk, groups, heads).

    Returns:
        Shape of ``u``.
    """
    batch, chunks, chunk, groups, heads, headdim = u.shape
    to_end = (total[:, :, -1:] - total).exp().unsqueeze(-1)
    # All heads of a group share B and C: their channels are the columns of one matrix product.
    weighted = (u * to_end).view(batch, chunks, chunk, groups, heads * headdim).transpose(2, 3)
    states = B.transpose(-1, -2).to(weighted.dtype) @ weighted
    chunk_decay = total[:, :, -1].exp().repeat_interleave(headdim, dim=-1).unsqueeze(-2)
    before = _Carry.apply(states.to(chunk_decay.dtype), chunk_decay)
    outer = (C.to(weighted.dtype) @ before).transpose(2, 3)
    return outer.reshape(u.shape) * total.exp().unsqueeze(-1)


class _Carry(torch.autograd.Function):
    """States before every chunk: h_0 = 0, h_{c+1} = decay_c h_c + state_c."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, decay: Tensor) -> Tensor:
        """Arguments (batch, chunks, ...), of which ``decay`` broadcasts; returns like states."""
        before = torch.empty_like(states)
        before[:, 0] = 0
        for c in range(states.shape[1] - 1):
            torch.addcmul(states[:, c], decay[:, c], before[:, c], out=before[:, c + 1])
        ctx.save_for_backward(before, decay)
        return before

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Carry slopes from the last chunk to the first."""
        before, decay = ctx.saved_tensors
        of_states = torch.empty_like(slope)
        of_states[:, -1] = 0
        for c in range(slope.shape[1] - 2, -1, -1):
            after = of_states[:, c + 1]
            torch.addcmul(slope[:, c + 1], decay[:, c + 1], after, out=of_states[:, c])
        return of_states, (of_states * before).sum(-2, keepdim=True)
