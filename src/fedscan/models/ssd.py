"""The state-space dual form of the Mamba2 recurrence, in chunks (Dao & Gu 2024, section 6).

Within a chunk the recurrence is a masked matrix product; between chunks a state of size
headdim x d_state is carried. Cost is linear in length. ``B`` and ``C`` are shared by the heads of
a group, so C B^T is computed once per group and the state products are single matrix products
over all heads of a group.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


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
    skip = D[:, None] * x
    if pad:
        # A padded step has dt = 0: it neither decays nor feeds the state.
        x, dt, B, C = (_pad_length(t, pad) for t in (x, dt, B, C))
    chunks = (length + pad) // chunk

    decay = (dt * A).view(batch, chunks, chunk, groups, per_group).permute(0, 1, 3, 4, 2)
    total = decay.cumsum(-1)
    u = (x * dt[..., None]).view(batch, chunks, chunk, groups, per_group, headdim)
    u = u.permute(0, 1, 3, 4, 2, 5)
    B = B.view(batch, chunks, chunk, groups, state).transpose(2, 3)
    C = C.view(batch, chunks, chunk, groups, state).transpose(2, 3)

    within = (C @ B.transpose(-1, -2)).unsqueeze(3) * _segment_decay(total)
    y = within.to(u.dtype) @ u
    if chunks > 1:
        y = y + _across_chunks(u, B, C, total)
    y = y.permute(0, 1, 4, 2, 3, 5).reshape(batch, length + pad, heads, headdim)
    return y[:, :length] + skip


def _pad_length(tensor: Tensor, pad: int) -> Tensor:
    return F.pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, pad))


def _segment_decay(total: Tensor) -> Tensor:
    """Return exp(sum of decays over (j, i]) for j <= i, else 0.

    Masked before the exponential: above the diagonal it could overflow, and the gradient of a
    masked infinity is NaN.

    Args:
        total: cumulative log decays, (..., chunk).

    Returns:
        (..., chunk, chunk).
    """
    difference = total.unsqueeze(-1) - total.unsqueeze(-2)
    chunk = total.shape[-1]
    lower = torch.ones(chunk, chunk, dtype=torch.bool, device=total.device).tril()
    return difference.masked_fill(~lower, float("-inf")).exp()


def _across_chunks(u: Tensor, B: Tensor, C: Tensor, total: Tensor) -> Tensor:
    """Return the contribution of earlier chunks, (batch, chunks, groups, heads, chunk, headdim)."""
    batch, chunks, groups, heads, chunk, headdim = u.shape
    to_end = (total[..., -1:] - total).exp().unsqueeze(-1)
    # All heads of a group share B and C: their channels are the columns of one matrix product.
    weighted = (u * to_end).permute(0, 1, 2, 4, 3, 5)
    weighted = weighted.reshape(batch, chunks, groups, chunk, heads * headdim)
    states = B.transpose(-1, -2).to(weighted.dtype) @ weighted
    chunk_decay = total[..., -1].exp().repeat_interleave(headdim, dim=-1).unsqueeze(-2)
    carried, before = torch.zeros_like(states[:, 0]), []
    for index in range(chunks):
        before.append(carried)
        carried = chunk_decay[:, index] * carried + states[:, index]
    outer = C.to(weighted.dtype) @ torch.stack(before, dim=1)
    outer = outer.view(batch, chunks, groups, chunk, heads, headdim).permute(0, 1, 2, 4, 3, 5)
    return outer * total.exp().unsqueeze(-1)
