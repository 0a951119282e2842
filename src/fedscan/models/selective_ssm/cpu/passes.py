"""The passes of one sequence through the layer, compiled, for one-hot inputs.

With x_t = e_u everything the layer does at time t depends on the token u alone, so it is tabulated
once per parameter point: the transition exp(A delta_u^T), the write W_B[:, u] delta_u[u] into
column u of the state, the read-out W_C[:, u]. Arrays are flat; rows have D entries. The backward
pass adds up, per token, the products that the gradient is made of (``Sums``); ``contract`` turns
them into the gradient once per batch or sequence.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import config, njit

from fedscan.models.selective_ssm.cpu.rows import exp, largest, load, store, total

# error_model: a division by zero gives infinity, which the caller records, not an exception.
INLINED = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True, "nogil": True}


def compiled() -> dict[str, Any]:
    """Return the options of a function that is called from Python.

    Machine code is kept on disk where NUMBA_CACHE_DIR says so. Numba sees only changes of a
    function's own file, so that folder must be one per version of this package (stages.job).

    Returns:
        Keyword arguments of ``njit``.
    """
    kept = bool(config.CACHE_DIR)
    return {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True, "cache": kept}


class Tables(NamedTuple):
    """What a token does; index u first."""

    hot: np.ndarray  # (D, D) the identity
    delta: np.ndarray  # (D, D) steps softplus(W_delta e_u)
    slope: np.ndarray  # (D, D) derivative of softplus
    transition: np.ndarray  # (D, N, D)
    write: np.ndarray  # (D, N) W_B[n, u] delta[u, u]
    read: np.ndarray  # (D, N) W_C[n, u]
    column: np.ndarray  # (D) scratch


class Sums(NamedTuple):
    """Sums over time and sequences, per token."""

    transition: np.ndarray  # (D, N, D) adjoint of h_t times h_{t-1}
    read: np.ndarray  # (D, N, D) adjoint of y_t times h_t
    write: np.ndarray  # (D, N) adjoint of the written entries


class Scratch(NamedTuple):
    """One sequence's intermediate values; ``states`` starts with h_0 = 0."""

    states: np.ndarray  # (S, N, D)
    logits: np.ndarray  # (S, D) then their adjoint
    adjoint: np.ndarray  # (N, D) of the state


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
        np.empty(d * n, kind),
        np.empty(d * n, kind),
        np.empty(d, kind),
    )


@njit(**INLINED)
def new_sums(like, d, n):
    """Allocate sums in the dtype of ``like``."""
    kind = like.dtype
    return Sums(np.empty(d * n * d, kind), np.empty(d * n * d, kind), np.empty(d * n, kind))


@njit(**INLINED)
def new_scratch(like, d, n, length):
    """Allocate one sequence's scratch in the dtype of ``like``."""
    kind = like.dtype
    states = np.zeros(length * n * d, kind)
    return Scratch(states, np.empty(length * d, kind), np.empty(n * d, kind))


@njit(**INLINED)
def fill_tables(params, tables, d, n, zero):
    """Tabulate the layer ``params`` (flat, see ``layout``)."""
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    one = params.dtype.type(1)
    for u in range(d):
        for i in range(d):
            w = params[i * d + u]
            small = np.exp(-abs(w))
            tables.delta[u * d + i] = max(w, w * 0) + np.log1p(small)
            tables.slope[u * d + i] = (one if w >= 0 else small) / (one + small)
        delta = load(tables.delta, u * d, zero)
        for k in range(n):
            store(tables.transition, (u * n + k) * d, exp(delta * params[a + k]))
            tables.write[u * n + k] = params[b + k * d + u] * tables.delta[u * d + u]
            tables.read[u * n + k] = params[c + k * d + u]


@njit(**INLINED)
def clear(sums, d, n, zero):
    """Set sums to zero."""
    for row in range(d * n):
        store(sums.transition, row * d, zero)
        store(sums.read, row * d, zero)
        sums.write[row] = 0


@njit(**INLINED)
def forward(tokens, tables, scratch, d, n, zero):
    """Fill the states and logits of one sequence; the last token is only a target."""
    for t in range(tokens.size - 1):
        u = np.int64(tokens[t])
        hot = load(tables.hot, u * d, zero)
        y = zero
        for k in range(n):
            kept = load(tables.transition, (u * n + k) * d, zero)
            h = kept * load(scratch.states, (t * n + k) * d, zero) + hot * tables.write[u * n + k]
            store(scratch.states, ((t + 1) * n + k) * d, h)
            y = y + h * tables.read[u * n + k]
        store(scratch.logits, t * d, y)


@njit(**INLINED)
def loss_adjoint(tokens, tables, logits, d, zero, weight):
    """Return the sequence's mean cross-entropy; replace logits by ``weight`` times its gradient."""
    steps = tokens.size - 1
    share = weight / steps
    nats = 0.0
    for t in range(steps):
        target = np.int64(tokens[t + 1])
        y = load(logits, t * d, zero)
        peak = largest(y)
        e = exp(y - peak)
        z = total(e)
        nats += np.log(z) - (logits[t * d + target] - peak)
        store(logits, t * d, e * (share / z) - load(tables.hot, target * d, zero) * share)
    return nats / steps


@njit(**INLINED)
def backward(tokens, tables, scratch, sums, d, n, zero):
    """Add one sequence's products to ``sums``, from the last position to the first."""
    for k in range(n):
        store(scratch.adjoint, k * d, zero)
    later = np.int64(0)
    for back in range(2, tokens.size + 1):
        t = tokens.size - back
        u = np.int64(tokens[t])
        g = load(scratch.logits, t * d, zero)
        for k in range(n):
            kept = load(tables.transition, (later * n + k) * d, zero)
            p = kept * load(scratch.adjoint, k * d, zero) + g * tables.read[u * n + k]
            store(scratch.adjoint, k * d, p)
            row = (u * n + k) * d
            before = load(scratch.states, (t * n + k) * d, zero)
            after = load(scratch.states, ((t + 1) * n + k) * d, zero)
            store(sums.transition, row, load(sums.transition, row, zero) + p * before)
            store(sums.read, row, load(sums.read, row, zero) + g * after)
        for k in range(n):
            sums.write[u * n + k] += scratch.adjoint[k * d + u]
        later = u


@njit(**INLINED)
def contract(params, tables, sums, gradient, d, n, zero):
    """Turn sums into the gradient with respect to ``params``; ``gradient`` is overwritten."""
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    gradient[a:] = 0
    for u in range(d):
        delta = load(tables.delta, u * d, zero)
        step = zero
        diagonal = params.dtype.type(0)
        for k in range(n):
            row = (u * n + k) * d
            p = load(tables.transition, row, zero) * load(sums.transition, row, zero)
            step = step + p * params[a + k]
            gradient[a + k] += total(p * delta)
            gradient[c + k * d + u] = total(load(sums.read, row, zero))
            gradient[b + k * d + u] = sums.write[u * n + k] * tables.delta[u * d + u]
            diagonal += sums.write[u * n + k] * params[b + k * d + u]
        step = step + load(tables.hot, u * d, zero) * diagonal
        store(tables.column, 0, step * load(tables.slope, u * d, zero))
        for i in range(d):
            gradient[i * d + u] = tables.column[i]
