"""The passes of one sequence through the layer, compiled, for one-hot inputs.

With x_t = e_u everything the layer does at time t depends on the token u alone, so it is tabulated
once per parameter point: the transition exp(A delta_u^T), the write W_B[:, u] delta_u[u] into
column u of the state, the read-out W_C[:, u]. The backward pass adds up, per token, the products
that the gradient is made of (``Sums``); ``contract`` turns them into the gradient once per batch or
sequence. ``zero`` is a row of zeros and ``block`` a block of them: they carry the sizes.

Arrays are flat; rows have D entries, and the N rows of a state are taken in blocks of R (``rows``).
The recurrence couples neither rows nor blocks, so a pass runs through time once per block: what it
carries stays in registers, and what it reads of tables, sums and states lies together, which keeps
it in the first cache where D and N are large.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import config, njit

from fedscan.models.selective_ssm.cpu.rows import (
    exp,
    load,
    repeated,
    row_largest,
    row_total,
    rows_in,
    store,
    sum_of_rows,
    total,
)

# error_model: a division by zero gives infinity, which the caller records, not an exception.
INLINED = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True, "nogil": True}


def compiled() -> dict[str, Any]:
    """Return the options of a function that is called from Python.

    Machine code is kept on disk where NUMBA_CACHE_DIR says so. Numba sees only changes of a
    function's own file, so that folder must be one per version of this package (pipeline.runner).

    Returns:
        Keyword arguments of ``njit``.
    """
    kept = bool(config.CACHE_DIR)
    return {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True, "cache": kept}


class Tables(NamedTuple):
    """What token u does; u is the first index of size D."""

    hot: np.ndarray  # (D, D) the identity
    delta: np.ndarray  # (D, D) steps softplus(W_delta e_u)
    slope: np.ndarray  # (D, D) derivative of softplus
    transition: np.ndarray  # (N / R, D, R, D)
    write: np.ndarray  # (N / R, D, R, D) W_B[n, u] delta[u, u] in entry u of a row, else zero
    read: np.ndarray  # (N / R, D, R, D) W_C[n, u] in all entries of a row
    column: np.ndarray  # (D) scratch


class Sums(NamedTuple):
    """Sums over time and sequences; the token is the first index of size D but in ``write``."""

    transition: np.ndarray  # (N / R, D, R, D) adjoint of h_t times h_{t-1}
    read: np.ndarray  # (N / R, D, R, D) adjoint of y_t times h_t
    write: np.ndarray  # (N, D) adjoint of what was written into h_t: its column u


class Scratch(NamedTuple):
    """One sequence's intermediate values; ``states`` starts with h_0 = 0.

    The arrays of logits have room for a last whole block, whose surplus rows stay zero.
    """

    states: np.ndarray  # (N / R, S, R, D)
    logits: np.ndarray  # (S - 1, D), later less the largest of their row
    partition: np.ndarray  # (S - 1, D) sum of their exponentials, in all entries of a row
    softmax: np.ndarray  # (S - 1, D)
    slopes: np.ndarray  # (S - 1, D) adjoint of the logits


@njit(**INLINED)
def new_tables(like, d, n):
    """Allocate tables in the dtype of ``like``."""
    kind = like.dtype
    hot = np.zeros(d * d, kind)
    for u in range(d):
        hot[u * d + u] = 1
    return Tables(
        hot,
        np.empty(d * d, kind),
        np.empty(d * d, kind),
        np.empty(d * n * d, kind),
        np.empty(d * n * d, kind),
        np.empty(d * n * d, kind),
        np.empty(d, kind),
    )


@njit(**INLINED)
def new_sums(like, d, n):
    """Allocate sums in the dtype of ``like``."""
    kind = like.dtype
    return Sums(np.empty(d * n * d, kind), np.empty(d * n * d, kind), np.empty(n * d, kind))


@njit(**INLINED)
def new_scratch(like, d, n, length, block):
    """Allocate one sequence's scratch in the dtype of ``like``."""
    kind = like.dtype
    rows = rows_in(block)
    size = -(-(length - 1) // rows) * rows * d
    return Scratch(
        np.zeros(length * n * d, kind),
        np.zeros(size, kind),
        np.empty(size, kind),
        np.empty(size, kind),
        np.empty(size, kind),
    )


@njit(**INLINED)
def place(u, k, d, block):
    """Return where row k of token u starts in an array (N / R, D, R, D)."""
    rows = rows_in(block)
    return (k // rows * rows * d + u * rows + k % rows) * d


@njit(**INLINED)
def moment(t, k, length, d, block):
    """Return where the block that starts at row k starts at time t in an array (N / R, S, R, D)."""
    return (k * length + t * rows_in(block)) * d


@njit(**INLINED)
def fill_tables(params, tables, d, n, zero, block):
    """Tabulate the layer ``params`` (flat, see ``layout``)."""
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    one = params.dtype.type(1)
    for u in range(d):
        for i in range(d):
            w = params[i * d + u]
            small = np.exp(-abs(w))
            tables.delta[u * d + i] = max(w, w * 0) + np.log1p(small)
            tables.slope[u * d + i] = (one if w >= 0 else small) / (one + small)
        delta, hot = load(tables.delta, u * d, zero), load(tables.hot, u * d, zero)
        for k in range(n):
            row = place(u, k, d, block)
            store(tables.transition, row, exp(delta * params[a + k]))
            store(tables.write, row, hot * (params[b + k * d + u] * tables.delta[u * d + u]))
            store(tables.read, row, zero + params[c + k * d + u])


@njit(**INLINED)
def clear(sums, d, n, block):
    """Set sums to zero."""
    for first in range(0, d * n * d, rows_in(block) * d):
        store(sums.transition, first, block)
        store(sums.read, first, block)
    for first in range(0, n * d, rows_in(block) * d):
        store(sums.write, first, block)


@njit(**INLINED)
def forward(tokens, tables, scratch, d, n, zero, block):
    """Fill the states and logits of one sequence; the last token is only a target."""
    rows = rows_in(block)
    for k in range(0, n, rows):
        h = block
        for t in range(tokens.size - 1):
            here = place(np.int64(tokens[t]), k, d, block)
            h = load(tables.transition, here, block) * h + load(tables.write, here, block)
            store(scratch.states, moment(t + 1, k, tokens.size, d, block), h)
            y = sum_of_rows(h * load(tables.read, here, block))
            store(scratch.logits, t * d, y if k == 0 else load(scratch.logits, t * d, zero) + y)


@njit(**INLINED)
def loss_adjoint(tokens, scratch, d, block, weight):
    """Return the sequence's mean cross-entropy; fill ``slopes`` with ``weight`` times its gradient.

    The largest logit of each row is subtracted from it in place.
    """
    steps = tokens.size - 1
    share = weight / steps
    for first in range(0, scratch.logits.size, rows_in(block) * d):
        y = load(scratch.logits, first, block)
        y = y - row_largest(y)
        e = exp(y)
        z = row_total(e)
        store(scratch.logits, first, y)
        store(scratch.partition, first, z)
        p = e / z
        store(scratch.softmax, first, p)
        store(scratch.slopes, first, p * share)
    nats, product = 0.0, 1.0
    for t in range(steps):
        target = t * d + np.int64(tokens[t + 1])
        scratch.slopes[target] -= share
        nats -= scratch.logits[target]
        # One logarithm for many factors, each from 1 to D: taken before it could overflow.
        product *= scratch.partition[t * d]
        if product > 1e250:
            nats, product = nats + np.log(product), 1.0
    return (nats + np.log(product)) / steps


@njit(**INLINED)
def backward(tokens, tables, scratch, sums, d, n, zero, block):
    """Add one sequence's products to ``sums``, from the last position to the first."""
    rows = rows_in(block)
    for k in range(0, n, rows):
        p, written, later = block, block, np.int64(0)
        after = load(scratch.states, moment(tokens.size - 1, k, tokens.size, d, block), block)
        for back in range(2, tokens.size + 1):
            t = tokens.size - back
            u = np.int64(tokens[t])
            here = place(u, k, d, block)
            g = repeated(load(scratch.slopes, t * d, zero), block)
            p = load(tables.transition, place(later, k, d, block), block) * p
            p = p + g * load(tables.read, here, block)
            before = load(scratch.states, moment(t, k, tokens.size, d, block), block)
            store(sums.transition, here, load(sums.transition, here, block) + p * before)
            store(sums.read, here, load(sums.read, here, block) + g * after)
            written = written + p * repeated(load(tables.hot, u * d, zero), block)
            after, later = before, u
        store(sums.write, k * d, load(sums.write, k * d, block) + written)


@njit(**INLINED)
def contract(params, tables, sums, gradient, d, n, zero, block):
    """Turn sums into the gradient with respect to ``params``; ``gradient`` is overwritten."""
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    gradient[a:] = 0
    for u in range(d):
        delta = load(tables.delta, u * d, zero)
        step = zero
        diagonal = params.dtype.type(0)
        for k in range(n):
            row = place(u, k, d, block)
            p = load(tables.transition, row, zero) * load(sums.transition, row, zero)
            step = step + p * params[a + k]
            gradient[a + k] += total(p * delta)
            gradient[c + k * d + u] = total(load(sums.read, row, zero))
            written = sums.write[k * d + u]
            gradient[b + k * d + u] = written * tables.delta[u * d + u]
            diagonal += written * params[b + k * d + u]
        step = step + load(tables.hot, u * d, zero) * diagonal
        store(tables.column, 0, step * load(tables.slope, u * d, zero))
        for i in range(d):
            gradient[i * d + u] = tables.column[i]
