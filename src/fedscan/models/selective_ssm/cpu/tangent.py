"""Hessian-vector products of one-hot sequences: the gradient's passes, differentiated forward.

For a direction V every quantity q of ``passes`` has a tangent, the derivative of q along V; the
tangent of the gradient is the Hessian times V. Names with a trailing underscore are tangents.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fedscan.models.selective_ssm.cpu.passes import (
    INLINED,
    backward,
    clear,
    compiled,
    fill_tables,
    forward,
    loss_adjoint,
    new_scratch,
    new_sums,
    new_tables,
)
from fedscan.models.selective_ssm.cpu.rows import load, store, total, zeros
from fedscan.models.selective_ssm.layout import Shape


@functools.cache
def products(shape: Shape) -> Callable[..., Any]:
    """Return the compiled Hessian-vector products of single sequences.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, directions, results) -> None; row i of ``results`` becomes the Hessian of
        sequence i's loss times row i of ``directions``.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, tokens, directions, results):
        zero = zeros(params, d)
        length = tokens.shape[1]
        tables, sums = new_tables(params, d, n), new_sums(params, d, n)
        tables_, sums_ = new_tables(params, d, n), new_sums(params, d, n)
        scratch, scratch_ = new_scratch(params, d, n, length), new_scratch(params, d, n, length)
        fill_tables(params, tables, d, n, zero)
        one = params.dtype.type(1)
        for i in range(tokens.shape[0]):
            word, v = tokens[i], directions[i]
            _tables(params, v, tables, tables_, d, n, zero)
            clear(sums, d, n, zero)
            clear(sums_, d, n, zero)
            forward(word, tables, scratch, d, n, zero)
            _forward(word, tables, tables_, scratch, scratch_, d, n, zero)
            loss_adjoint(word, tables, scratch.logits, d, zero, one)
            _loss_adjoint(word, tables, scratch.logits, scratch_.logits, d, zero)
            # The tangent first: it needs the adjoint of each step before and after the update.
            _backward(word, tables, tables_, scratch, scratch_, sums_, d, n, zero)
            backward(word, tables, scratch, sums, d, n, zero)
            _contract(params, v, tables, tables_, sums, sums_, results[i], d, n, zero)

    return run


@njit(**INLINED)
def _tables(params, v, tables, tables_, d, n, zero):
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    for u in range(d):
        for i in range(d):
            slope, vw = tables.slope[u * d + i], v[i * d + u]
            tables_.delta[u * d + i] = slope * vw
            tables_.slope[u * d + i] = slope * (1 - slope) * vw
        delta, delta_ = load(tables.delta, u * d, zero), load(tables_.delta, u * d, zero)
        for k in range(n):
            row = (u * n + k) * d
            rate_ = delta * v[a + k] + delta_ * params[a + k]
            store(tables_.transition, row, load(tables.transition, row, zero) * rate_)
            tables_.write[u * n + k] = (
                v[b + k * d + u] * tables.delta[u * d + u]
                + params[b + k * d + u] * tables_.delta[u * d + u]
            )
            tables_.read[u * n + k] = v[c + k * d + u]


@njit(**INLINED)
def _forward(tokens, tables, tables_, scratch, scratch_, d, n, zero):
    for t in range(tokens.size - 1):
        u = np.int64(tokens[t])
        hot = load(tables.hot, u * d, zero)
        y_ = zero
        for k in range(n):
            row, here = (u * n + k) * d, (t * n + k) * d
            h_ = (
                load(tables.transition, row, zero) * load(scratch_.states, here, zero)
                + load(tables_.transition, row, zero) * load(scratch.states, here, zero)
                + hot * tables_.write[u * n + k]
            )
            after = ((t + 1) * n + k) * d
            store(scratch_.states, after, h_)
            y_ = y_ + h_ * tables.read[u * n + k]
            y_ = y_ + load(scratch.states, after, zero) * tables_.read[u * n + k]
        store(scratch_.logits, t * d, y_)


@njit(**INLINED)
def _loss_adjoint(tokens, tables, adjoint, logits_, d, zero):
    """Replace tangents of logits by tangents of their adjoint, share * (p y_ - p (p . y_))."""
    steps = tokens.size - 1
    share = adjoint.dtype.type(1) / steps
    for t in range(steps):
        target = np.int64(tokens[t + 1])
        # p / steps, from the adjoint (p - hot) / steps.
        p = load(adjoint, t * d, zero) + load(tables.hot, target * d, zero) * share
        y_ = load(logits_, t * d, zero)
        store(logits_, t * d, p * y_ - p * (total(p * y_) * steps))


@njit(**INLINED)
def _backward(tokens, tables, tables_, scratch, scratch_, sums_, d, n, zero):
    for k in range(n):
        store(scratch.adjoint, k * d, zero)
        store(scratch_.adjoint, k * d, zero)
    later = np.int64(0)
    for back in range(2, tokens.size + 1):
        t = tokens.size - back
        u = np.int64(tokens[t])
        g, g_ = load(scratch.logits, t * d, zero), load(scratch_.logits, t * d, zero)
        for k in range(n):
            kept = load(tables.transition, (later * n + k) * d, zero)
            kept_ = load(tables_.transition, (later * n + k) * d, zero)
            old, old_ = load(scratch.adjoint, k * d, zero), load(scratch_.adjoint, k * d, zero)
            p_ = kept * old_ + kept_ * old
            p_ = p_ + g_ * tables.read[u * n + k] + g * tables_.read[u * n + k]
            p = kept * old + g * tables.read[u * n + k]
            store(scratch.adjoint, k * d, p)
            store(scratch_.adjoint, k * d, p_)
            row, here, after = (u * n + k) * d, (t * n + k) * d, ((t + 1) * n + k) * d
            h, h_ = load(scratch.states, here, zero), load(scratch_.states, here, zero)
            store(sums_.transition, row, load(sums_.transition, row, zero) + p_ * h + p * h_)
            h, h_ = load(scratch.states, after, zero), load(scratch_.states, after, zero)
            store(sums_.read, row, load(sums_.read, row, zero) + g_ * h + g * h_)
        for k in range(n):
            sums_.write[u * n + k] += scratch_.adjoint[k * d + u]
        later = u


@njit(**INLINED)
def _contract(params, v, tables, tables_, sums, sums_, result, d, n, zero):
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    result[a:] = 0
    for u in range(d):
        delta, delta_ = load(tables.delta, u * d, zero), load(tables_.delta, u * d, zero)
        step, step_, diagonal, diagonal_ = zero, zero, params.dtype.type(0), params.dtype.type(0)
        for k in range(n):
            row = (u * n + k) * d
            s, s_ = load(sums.transition, row, zero), load(sums_.transition, row, zero)
            kept, kept_ = load(tables.transition, row, zero), load(tables_.transition, row, zero)
            p = kept * s
            p_ = kept_ * s + kept * s_
            step = step + p * params[a + k]
            step_ = step_ + p_ * params[a + k] + p * v[a + k]
            result[a + k] += total(p_ * delta + p * delta_)
            result[c + k * d + u] = total(load(sums_.read, row, zero))
            w, w_ = sums.write[u * n + k], sums_.write[u * n + k]
            result[b + k * d + u] = w_ * tables.delta[u * d + u] + w * tables_.delta[u * d + u]
            diagonal += w * params[b + k * d + u]
            diagonal_ += w_ * params[b + k * d + u] + w * v[b + k * d + u]
        hot = load(tables.hot, u * d, zero)
        slope, slope_ = load(tables.slope, u * d, zero), load(tables_.slope, u * d, zero)
        store(
            tables.column, 0, (step_ + hot * diagonal_) * slope + (step + hot * diagonal) * slope_
        )
        for i in range(d):
            result[i * d + u] = tables.column[i]
