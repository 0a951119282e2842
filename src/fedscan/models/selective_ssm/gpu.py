"""The GPU kernel: ``cpu.sequence_gradients`` again, one Triton program per sequence.

The recurrences and their adjoints run in Triton; the last step, which turns per-token sums into
gradients (see ``cpu.passes``), is three small contractions in torch. Checked in Triton's
interpreter, which runs without a GPU.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from fedscan.models.selective_ssm.cpu import require
from fedscan.models.selective_ssm.layout import Shape


def sequence_gradients(
    params: np.ndarray, tokens: np.ndarray, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and gradient of every sequence by itself, as ``cpu.sequence_gradients``.

    Args:
        params: (parameters) float32 or float64.
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.

    Returns:
        Losses (sequences) float64, gradients (sequences, parameters).

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``; without CUDA, outside Triton's
            interpreter.
    """
    require(params, tokens, shape)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not triton.knobs.runtime.interpret:
        raise ValueError("kernels 'triton' need a CUDA device; use 'cpu'")
    losses, gradients = _on_device(
        torch.tensor(params, device=device), torch.tensor(tokens, device=device), shape
    )
    return losses.double().cpu().numpy(), gradients.cpu().numpy()


def _on_device(params: Tensor, tokens: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    d, n = shape
    w, b, c, a = (part.contiguous() for part in torch.split(params, shape.sizes))
    w, b, c = w.view(d, d).T, b.view(n, d).T, c.view(n, d).T.contiguous()  # index u first
    delta, slope = torch.nn.functional.softplus(w), torch.sigmoid(w)
    transition = torch.exp(delta[:, None, :] * a[None, :, None]).contiguous()
    diagonal = delta.diagonal()[:, None]
    written = (b * diagonal).contiguous()
    count, length = tokens.shape
    states = params.new_zeros(count, length, n, d)
    adjoints = params.new_empty(count, length, d)
    sums, reads = (params.new_zeros(count, d, n, d) for _ in range(2))
    writes = params.new_zeros(count, d, n)
    losses = params.new_empty(count)
    _sequence[(count,)](
        tokens, transition, written, c, states, adjoints, sums, reads, writes, losses, length,
        D=d, N=n, PADDED_D=triton.next_power_of_2(d), PADDED_N=triton.next_power_of_2(n),
    )  # fmt: skip
    kept = transition * sums  # adjoint of the transition times the transition
    step = torch.einsum("sund,n->sud", kept, a)
    step = step + torch.diag_embed(torch.einsum("sun,un->su", writes, b))
    blocks = (
        (step * slope).transpose(1, 2),
        (writes * diagonal).transpose(1, 2),
        reads.sum(dim=3).transpose(1, 2),
        torch.einsum("sund,ud->sn", kept, delta),
    )
    return losses, torch.cat([block.reshape(count, -1) for block in blocks], dim=1)


@triton.jit
def _sequence(
    tokens, transition, written, read, states, adjoints, sums, reads, writes, losses, length,
    D: tl.constexpr, N: tl.constexpr, PADDED_D: tl.constexpr, PADDED_N: tl.constexpr,
):  # fmt: skip
    """Forward and backward pass of one sequence; arrays as in ``cpu.passes``, sequence first."""
    sequence = tl.program_id(0)
    word = tokens + sequence * length
    states += sequence * length * N * D
    adjoints += sequence * length * D
    loss = _forward(
        word, transition, written, read, states, adjoints, length, D, N, PADDED_D, PADDED_N
    )
    tl.store(losses + sequence, loss)
    sums += sequence * D * N * D
    reads += sequence * D * N * D
    writes += sequence * D * N
    _backward(
        word, transition, read, states, adjoints, sums, reads, writes, length,
        D, N, PADDED_D, PADDED_N,
    )  # fmt: skip


@triton.jit
def _forward(
    word, transition, written, read, states, adjoints, length,
    D: tl.constexpr, N: tl.constexpr, PADDED_D: tl.constexpr, PADDED_N: tl.constexpr,
):  # fmt: skip
    """Store states and the adjoints of the logits; return the mean cross-entropy."""
    d, n = tl.arange(0, PADDED_D), tl.arange(0, PADDED_N)
    row = d < D
    grid = (n < N)[:, None] & row[None, :]
    cell = n[:, None] * D + d[None, :]
    kind: tl.constexpr = states.dtype.element_ty
    h = tl.zeros((PADDED_N, PADDED_D), kind)
    nats = tl.zeros((), kind)
    # In the dtype of the states: a quotient of two integers would be float32.
    share = tl.full((), 1.0, kind) / (length - 1)
    for t in range(length - 1):
        u = tl.load(word + t).to(tl.int32)
        target = tl.load(word + t + 1).to(tl.int32)
        kept = tl.load(transition + u * N * D + cell, mask=grid, other=0.0)
        put = tl.load(written + u * N + n, mask=n < N, other=0.0)
        h = kept * h + tl.where(d[None, :] == u, put[:, None], 0.0)
        tl.store(states + (t + 1) * N * D + cell, h, mask=grid)
        c = tl.load(read + u * N + n, mask=n < N, other=0.0)
        y = tl.where(row, tl.sum(h * c[:, None], axis=0), float("-inf"))
        peak = tl.max(y, axis=0)
        e = tl.exp(y - peak)
        z = tl.sum(e, axis=0)
        nats += tl.log(z) + peak - tl.sum(tl.where(d == target, y, 0.0), axis=0)
        g = (e / z - tl.where(d == target, 1.0, 0.0)) * share
        tl.store(adjoints + t * D + d, g, mask=row)
    return nats * share


@triton.jit
def _backward(
    word, transition, read, states, adjoints, sums, reads, writes, length,
    D: tl.constexpr, N: tl.constexpr, PADDED_D: tl.constexpr, PADDED_N: tl.constexpr,
):  # fmt: skip
    """Add the sequence's products to its sums, from the last position to the first."""
    d, n = tl.arange(0, PADDED_D), tl.arange(0, PADDED_N)
    row = d < D
    grid = (n < N)[:, None] & row[None, :]
    cell = n[:, None] * D + d[None, :]
    p = tl.zeros((PADDED_N, PADDED_D), states.dtype.element_ty)
    later = 0
    for back in range(2, length + 1):
        t = length - back
        u = tl.load(word + t).to(tl.int32)
        g = tl.load(adjoints + t * D + d, mask=row, other=0.0)
        kept = tl.load(transition + later * N * D + cell, mask=grid, other=0.0)
        c = tl.load(read + u * N + n, mask=n < N, other=0.0)
        p = kept * p + c[:, None] * g[None, :]
        place = u * N * D + cell
        before = tl.load(states + t * N * D + cell, mask=grid, other=0.0)
        after = tl.load(states + (t + 1) * N * D + cell, mask=grid, other=0.0)
        old = tl.load(sums + place, mask=grid, other=0.0)
        tl.store(sums + place, old + p * before, mask=grid)
        old = tl.load(reads + place, mask=grid, other=0.0)
        tl.store(reads + place, old + g[None, :] * after, mask=grid)
        old = tl.load(writes + u * N + n, mask=n < N, other=0.0)
        column = tl.sum(tl.where(d[None, :] == u, p, 0.0), axis=1)
        tl.store(writes + u * N + n, old + column, mask=n < N)
        later = u
