"""The Mamba2 recurrence, one position at a time."""

import torch


def sequential_ssd(x, dt, A, B, C, D):
    """h_t = exp(dt A) h_{t-1} + dt x_t B_t^T per head; y_t = h_t C_t + D x_t."""
    batch, length, heads, headdim = x.shape
    groups, state = B.shape[2:]
    outputs = []
    h = torch.zeros(batch, heads, headdim, state, dtype=x.dtype)
    for t in range(length):
        b = B[:, t].repeat_interleave(heads // groups, dim=1)
        c = C[:, t].repeat_interleave(heads // groups, dim=1)
        decay = torch.exp(dt[:, t] * A)[..., None, None]
        h = decay * h + (dt[:, t, :, None] * x[:, t])[..., None] * b[:, :, None, :]
        outputs.append((h * c[:, :, None, :]).sum(-1) + D[:, None] * x[:, t])
    return torch.stack(outputs, dim=1)
