"""Feedback attention as Triton kernels: the streaming form for GPUs, in float32.

One kernel takes each row's log-sum-exp, which does not depend on s. Then a program per sequence and
slice of features walks down the rows: earlier rows enter as causal attention on s itself, a block's
own rows by (I - A)^-1 = (I + A)(I + A^2)(I + A^4)... of its strictly triangular A, which is exact.
The backward pass walks up, and two more kernels form the slopes of queries and keys. Products are
in full float32. Checked in Triton's interpreter against a token loop, and compiled ahead of time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows of a block, its logarithm, and features of a slice.
ROWS, SQUARINGS, SLICE = 32, 5, 32
# A program walks down its rows in order: what it stored must be seen by all its threads.
WARPS = 4


def triton_feedback(q: Tensor, k: Tensor, gains: Tensor, f: Tensor) -> Tensor:
    """Return s with s_t = f_t + gain_t sum over j < t of softmax_j(q_t k_j) s_j.

    Args:
        q: queries, scaled, (batch, length, key width).
        k: keys, (batch, length, key width).
        gains: (batch, length), each below 1 in magnitude for s to stay bounded.
        f: (batch, length, width).

    Returns:
        (batch, length, width) float32.

    Raises:
        ValueError: for tensors that are not on a GPU (the interpreter takes all), or in float64.
    """
    parts = (q, k, gains, f)
    if not q.is_cuda and not triton.knobs.runtime.interpret:
        raise ValueError(
            f"Triton's kernels need a GPU, and the layer is on {q.device}: use kernels 'torch'"
        )
    if any(part.dtype == torch.float64 for part in parts):
        raise ValueError("Triton's kernels are of float32; use kernels 'torch' for float64")
    with torch.autocast(f.device.type, enabled=False):
        s: Tensor = _TritonFeedback.apply(*(part.float().contiguous() for part in parts))
    return s


class _TritonFeedback(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, gains: Tensor, f: Tensor) -> Tensor:
        batch, length, width = f.shape
        keys, count = q.shape[2], triton.cdiv(length, ROWS)
        norms = f.new_empty(batch, length)
        s, mixed = torch.empty_like(f), torch.empty_like(f)
        shapes = {"ROWS": ROWS, "SLICE": SLICE, "num_warps": WARPS}
        _norms[batch, count](q, k, norms, length, keys, **shapes)
        _down[batch, triton.cdiv(width, SLICE)](
            q, k, gains, f, norms, s, mixed, length, keys, width, SQUARINGS=SQUARINGS, **shapes
        )
        ctx.save_for_backward(q, k, gains, norms, s, mixed)
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        q, k, gains, norms, s, mixed = ctx.saved_tensors
        batch, length, width = s.shape
        keys, count = q.shape[2], triton.cdiv(length, ROWS)
        of_f, of_q, of_k = torch.empty_like(s), torch.empty_like(q), torch.empty_like(k)
        shapes = {"ROWS": ROWS, "SLICE": SLICE, "num_warps": WARPS}
        _up[batch, triton.cdiv(width, SLICE)](
            q, k, gains, slope.contiguous(), norms, of_f, length, keys, width,
            SQUARINGS=SQUARINGS, **shapes,
        )  # fmt: skip
        of_gains = (of_f * mixed).sum(-1)
        grid = (batch, count, triton.cdiv(keys, SLICE))
        for out, other, of_keys in ((of_q, k, False), (of_k, q, True)):
            _slopes[grid](
                q, k, other, gains, of_gains, norms, s, of_f, out, length, keys, width,
                OF_KEYS=of_keys, **shapes,
            )  # fmt: skip
        return of_q, of_k, of_gains, of_f


@triton.jit
def _tile(base, rows, columns, length, width):
    """Load rows and columns of a (length, width) matrix, zeros outside."""
    inside = (rows < length)[:, None] & (columns < width)[None, :]
    return tl.load(base + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)


@triton.jit
def _logits(q, k, rows, others, length, keys, ROWS: tl.constexpr, SLICE: tl.constexpr):
    """Return q_rows k_others^T, those not before a row -inf."""
    found = tl.zeros((ROWS, ROWS), tl.float32)
    lane = tl.arange(0, SLICE)
    for start in range(0, keys, SLICE):
        a = _tile(q, rows, start + lane, length, keys)
        b = _tile(k, others, start + lane, length, keys)
        found += tl.dot(a, tl.trans(b), input_precision="ieee")
    before = (others[None, :] < rows[:, None]) & (rows < length)[:, None]
    return tl.where(before, found, float("-inf"))


@triton.jit
def _weights(q, k, norms, rows, others, length, keys, ROWS: tl.constexpr, SLICE: tl.constexpr):
    """Return softmax weights of some rows on some columns; row 0 has none."""
    logits = _logits(q, k, rows, others, length, keys, ROWS, SLICE)
    norm = tl.load(norms + rows, mask=rows < length, other=0.0)
    some = (rows > 0) & (rows < length)
    return tl.where(some[:, None], tl.exp(logits - tl.where(some, norm, 0.0)[:, None]), 0.0)


@triton.jit
def _norms(q, k, norms, length, keys, ROWS: tl.constexpr, SLICE: tl.constexpr):
    """One block of rows: log-sum-exp of each, column block by column block."""
    sequence = tl.program_id(0).to(tl.int64)
    q += sequence * length * keys
    k += sequence * length * keys
    block = tl.program_id(1)
    lane = tl.arange(0, ROWS)
    rows = block * ROWS + lane
    # Finite, so that rows without entries give exp(0), not a NaN.
    peaks = tl.full((ROWS,), -1.0e30, tl.float32)
    totals = tl.zeros((ROWS,), tl.float32)
    for other in range(0, block + 1):
        logits = _logits(q, k, rows, other * ROWS + lane, length, keys, ROWS, SLICE)
        higher = tl.maximum(peaks, tl.max(logits, axis=1))
        totals = totals * tl.exp(peaks - higher) + tl.sum(tl.exp(logits - higher[:, None]), axis=1)
        peaks = higher
    norm = peaks + tl.log(tl.maximum(totals, 1.0e-38))
    tl.store(norms + sequence * length + rows, norm, mask=rows < length)


@triton.jit
def _solved(A, right, SQUARINGS: tl.constexpr):
    """Return (I - A)^-1 right of a strictly triangular A: A^(2^SQUARINGS) is zero."""
    power = A
    for step in tl.static_range(SQUARINGS):
        right += tl.dot(power, right, input_precision="ieee")
        if step + 1 < SQUARINGS:
            power = tl.dot(power, power, input_precision="ieee")
    return right


@triton.jit
def _down(
    q, k, gains, f, norms, s, mixed, length, keys, width,
    SQUARINGS: tl.constexpr, ROWS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """One sequence, one slice of features: s from the first row to the last."""
    sequence = tl.program_id(0).to(tl.int64)
    q += sequence * length * keys
    k += sequence * length * keys
    f += sequence * length * width
    s += sequence * length * width
    mixed += sequence * length * width
    gains += sequence * length
    norms += sequence * length
    lane = tl.arange(0, ROWS)
    features = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    for block in range(0, tl.cdiv(length, ROWS)):
        rows = block * ROWS + lane
        gain = tl.load(gains + rows, mask=rows < length, other=0.0)
        earlier = tl.zeros((ROWS, SLICE), tl.float32)
        for other in range(0, block):
            others = other * ROWS + lane
            alpha = _weights(q, k, norms, rows, others, length, keys, ROWS, SLICE)
            known = _tile(s, others, features, length, width)
            earlier += tl.dot(alpha, known, input_precision="ieee")
        own = _weights(q, k, norms, rows, rows, length, keys, ROWS, SLICE)
        right = _tile(f, rows, features, length, width) + gain[:, None] * earlier
        found = _solved(gain[:, None] * own, right, SQUARINGS)
        mean = earlier + tl.dot(own, found, input_precision="ieee")
        inside = (rows < length)[:, None] & (features < width)[None, :]
        where = rows[:, None] * width + features[None, :]
        tl.store(s + where, found, mask=inside)
        tl.store(mixed + where, mean, mask=inside)
        # The next block reads these rows, in other threads.
        tl.debug_barrier()


@triton.jit
def _up(
    q, k, gains, slope, norms, of_f, length, keys, width,
    SQUARINGS: tl.constexpr, ROWS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """One sequence, one slice of features: slopes of f from the last row to the first."""
    sequence = tl.program_id(0).to(tl.int64)
    q += sequence * length * keys
    k += sequence * length * keys
    slope += sequence * length * width
    of_f += sequence * length * width
    gains += sequence * length
    norms += sequence * length
    lane = tl.arange(0, ROWS)
    features = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    count = tl.cdiv(length, ROWS)
    for index in range(0, count):
        block = count - 1 - index
        rows = block * ROWS + lane
        right = _tile(slope, rows, features, length, width)
        for other in range(block + 1, count):
            others = other * ROWS + lane
            alpha = _weights(q, k, norms, others, rows, length, keys, ROWS, SLICE)
            gain = tl.load(gains + others, mask=others < length, other=0.0)
            known = _tile(of_f, others, features, length, width)
            right += tl.dot(tl.trans(gain[:, None] * alpha), known, input_precision="ieee")
        gain = tl.load(gains + rows, mask=rows < length, other=0.0)
        own = _weights(q, k, norms, rows, rows, length, keys, ROWS, SLICE)
        found = _solved(tl.trans(gain[:, None] * own), right, SQUARINGS)
        inside = (rows < length)[:, None] & (features < width)[None, :]
        tl.store(of_f + rows[:, None] * width + features[None, :], found, mask=inside)
        tl.debug_barrier()


@triton.jit
def _slopes(
    q, k, other, gains, of_gains, norms, s, of_f, out, length, keys, width,
    OF_KEYS: tl.constexpr, ROWS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """One block of queries (or keys), one slice of their width: sum of logits' slopes times k (q).

    The slope of logit_tj is gain_t alpha_tj (<of_f_t, s_j> - of_gain_t).
    """
    sequence = tl.program_id(0).to(tl.int64)
    q += sequence * length * keys
    k += sequence * length * keys
    other += sequence * length * keys
    out += sequence * length * keys
    s += sequence * length * width
    of_f += sequence * length * width
    gains += sequence * length
    of_gains += sequence * length
    norms += sequence * length
    block = tl.program_id(1)
    lane = tl.arange(0, ROWS)
    part = tl.arange(0, SLICE)
    features = tl.program_id(2) * SLICE + part
    mine = block * ROWS + lane
    total = tl.zeros((ROWS, SLICE), tl.float32)
    first = block if OF_KEYS else 0
    last = tl.cdiv(length, ROWS) if OF_KEYS else block + 1
    for index in range(first, last):
        theirs = index * ROWS + lane
        rows = theirs if OF_KEYS else mine
        columns = mine if OF_KEYS else theirs
        alpha = _weights(q, k, norms, rows, columns, length, keys, ROWS, SLICE)
        products = tl.zeros((ROWS, ROWS), tl.float32)
        for start in range(0, width, SLICE):
            a = _tile(of_f, rows, start + part, length, width)
            b = _tile(s, columns, start + part, length, width)
            products += tl.dot(a, tl.trans(b), input_precision="ieee")
        gain = tl.load(gains + rows, mask=rows < length, other=0.0)
        own = tl.load(of_gains + rows, mask=rows < length, other=0.0)
        slopes = gain[:, None] * alpha * (products - own[:, None])
        if OF_KEYS:
            slopes = tl.trans(slopes)
        total += tl.dot(
            slopes, _tile(other, theirs, features, length, keys), input_precision="ieee"
        )
    inside = (mine < length)[:, None] & (features < keys)[None, :]
    tl.store(out + mine[:, None] * keys + features[None, :], total, mask=inside)
