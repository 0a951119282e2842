"""The selective state-space layer that consensus is proved for, batched.

Silvestre, Rodríguez Abella and Tabuada, "The Attention Within", section II: no value projection,
convolution, skip or output projection; every channel has its own step size and decay.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class AnalysedLayer(NamedTuple):
    """Weights of one layer; all may have the same leading batch axis, one layer per element.

    Attributes:
        alpha: decay rates, not negative, (n).
        W_delta: step sizes' weights, (n, n); row mu is of channel mu.
        b_delta: their biases, (n).
        S_B: input map, (m, n).
        S_C: output map, (m, n).
    """

    alpha: Tensor
    W_delta: Tensor
    b_delta: Tensor
    S_B: Tensor
    S_C: Tensor


def step_sizes(z: Tensor, layer: AnalysedLayer) -> Tensor:
    """Return Delta = softplus(W_Delta z + b_Delta).

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.

    Returns:
        (batch, tokens, n).
    """
    return F.softplus(z @ layer.W_delta.mT + layer.b_delta.unsqueeze(-2))


def maps(z: Tensor, layer: AnalysedLayer, silu: bool) -> tuple[Tensor, Tensor]:
    """Return f(S_B z) and f(S_C z), f a SiLU or the identity.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: which of the two.

    Returns:
        Each (batch, tokens, m).
    """
    B, C = z @ layer.S_B.mT, z @ layer.S_C.mT
    return (F.silu(B), F.silu(C)) if silu else (B, C)


def interaction(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return q_ij = f(S_C z_i) . f(S_B z_j), also where j > i.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens i, tokens j).
    """
    B, C = maps(z, layer, silu)
    return torch.bmm(C, B.transpose(1, 2))


def own_interaction(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return q_i = f(S_C z_i) . f(S_B z_i), a token's interaction with itself.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens).
    """
    B, C = maps(z, layer, silu)
    return (B * C).sum(-1)


def readout(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return r_i = sum over j <= i of q_ij D_ij z_j, without the states and without overflow.

    What reaches token i is kept per source token and channel, and decays with every token: no
    exponential of a sum of step sizes is formed.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens, n).
    """
    q, steps = interaction(z, layer, silu), step_sizes(z, layer)
    decay = torch.exp(-layer.alpha.unsqueeze(-2) * steps)
    arrived = steps * z
    r = torch.empty_like(z)
    for i in range(z.shape[1]):
        if i:
            arrived[:, :i] *= decay[:, i : i + 1]
        torch.bmm(q[:, i : i + 1, : i + 1], arrived[:, : i + 1], out=r[:, i : i + 1])
    return r


def recurrence(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return the readout by the states h_i, (n, m) each: the definition, slow.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens, n).
    """
    (B, C), steps = maps(z, layer, silu), step_sizes(z, layer)
    decay = torch.exp(-layer.alpha.unsqueeze(-2) * steps)
    h = z.new_zeros(z.shape[0], z.shape[2], B.shape[2])
    rows = []
    for i in range(z.shape[1]):
        new = (steps[:, i] * z[:, i]).unsqueeze(-1) * B[:, i].unsqueeze(1)
        h = decay[:, i].unsqueeze(-1) * h + new
        rows.append((h * C[:, i].unsqueeze(1)).sum(-1))
    return torch.stack(rows, dim=1)


def transfer(z: Tensor, layer: AnalysedLayer) -> Tensor:
    """Return lambda_ij = Delta_j exp(-alpha (Delta_{j+1} + ... + Delta_i)), 0 where j > i.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.

    Returns:
        (batch, tokens i, tokens j, n).
    """
    steps = step_sizes(z, layer)
    total = steps.cumsum(1)
    between = total.unsqueeze(2) - total.unsqueeze(1)
    count = z.shape[1]
    earlier = torch.ones(count, count, dtype=torch.bool, device=z.device).tril().unsqueeze(-1)
    # Masked before the exponential: for j > i it could overflow.
    exponent = (-layer.alpha.unsqueeze(-2).unsqueeze(-2) * between).masked_fill(
        ~earlier, -torch.inf
    )
    return steps.unsqueeze(1) * torch.exp(exponent)


def readout_products(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return the readout in its input-output form; for few tokens and channels the fastest.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens, n).
    """
    weighted = interaction(z, layer, silu).unsqueeze(-1) * transfer(z, layer)
    return (weighted * z.unsqueeze(1)).sum(2)


def field(z: Tensor, layer: AnalysedLayer, silu: bool) -> Tensor:
    """Return dz_i/dt = (I - z_i z_i^T) r_i, for tokens of norm 1.

    Args:
        z: tokens, (batch, tokens, n).
        layer: weights.
        silu: whether f is a SiLU.

    Returns:
        (batch, tokens, n).
    """
    r = readout_products(z, layer, silu)
    return r - (r * z).sum(-1, keepdim=True) * z
