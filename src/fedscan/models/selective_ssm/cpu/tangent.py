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
    moment,
    new_scratch,
    new_sums,
    new_tables,
    place,
)
from fedscan.models.selective_ssm.cpu.rows import (
    load,
    repeated,
    row_total,
    rows_in,
    store,
    sum_of_rows,
    total,
    zeros,
)
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
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        length = tokens.shape[1]
        tables, sums = new_tables(params, d, n), new_sums(params, d, n)
        tables_, sums_ = new_tables(params, d, n), new_sums(params, d, n)
        scratch = new_scratch(params, d, n, length, block)
        scratch_ = new_scratch(params, d, n, length, block)
        fill_tables(params, tables, d, n, zero, block)
        one = params.dtype.type(1)
        for i in range(tokens.shape[0]):
            word, v = tokens[i], directions[i]
            _tables(params, v, tables, tables_, d, n, zero, block)
            clear(sums, d, n, block)
            clear(sums_, d, n, block)
            forward(word, tables, scratch, d, n, zero, block)
            _forward(word, tables, tables_, scratch, scratch_, d, n, zero, block)
            loss_adjoint(word, scratch, d, block, one)
            _loss_adjoint(word, scratch, scratch_, d, block)
            _backward(word, tables, tables_, scratch, scratch_, sums_, d, n, zero, block)
            backward(word, tables, scratch, sums, d, n, zero, block)
            _contract(params, v, tables, tables_, sums, sums_, results[i], d, n, zero, block)

    return run


@njit(**INLINED)
def _tables(params, v, tables, tables_, d, n, zero, block):
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    for u in range(d):
        for i in range(d):
            slope, vw = tables.slope[u * d + i], v[i * d + u]
            tables_.delta[u * d + i] = slope * vw
            tables_.slope[u * d + i] = slope * (1 - slope) * vw
        delta, delta_ = load(tables.delta, u * d, zero), load(tables_.delta, u * d, zero)
        hot = load(tables.hot, u * d, zero)
        for k in range(n):
            row = place(u, k, d, block)
            rate_ = delta * v[a + k] + delta_ * params[a + k]
            store(tables_.transition, row, load(tables.transition, row, zero) * rate_)
            write_ = v[b + k * d + u] * tables.delta[u * d + u]
            write_ += params[b + k * d + u] * tables_.delta[u * d + u]
            store(tables_.write, row, hot * write_)
            store(tables_.read, row, zero + v[c + k * d + u])


@njit(**INLINED)
def _forward(tokens, tables, tables_, scratch, scratch_, d, n, zero, block):
    rows = rows_in(block)
    for k in range(0, n, rows):
        h_ = block
        for t in range(tokens.size - 1):
            u = np.int64(tokens[t])
            row, after = place(u, k, d, block), moment(t + 1, k, tokens.size, d, block)
            here = moment(t, k, tokens.size, d, block)
            before, h = load(scratch.states, here, block), load(scratch.states, after, block)
            h_ = load(tables.transition, row, block) * h_
            h_ = h_ + load(tables_.transition, row, block) * before
            h_ = h_ + load(tables_.write, row, block)
            store(scratch_.states, after, h_)
            y_ = h_ * load(tables.read, row, block)
            y_ = sum_of_rows(y_ + h * load(tables_.read, row, block))
            store(scratch_.logits, t * d, y_ if k == 0 else load(scratch_.logits, t * d, zero) + y_)


@njit(**INLINED)
def _loss_adjoint(tokens, scratch, scratch_, d, block):
    """Fill tangents of the logits' adjoint, share * (p y_ - p (p . y_))."""
    share = scratch.slopes.dtype.type(1) / (tokens.size - 1)
    for first in range(0, scratch.logits.size, rows_in(block) * d):
        p = load(scratch.softmax, first, block)
        py_ = p * load(scratch_.logits, first, block)
        store(scratch_.slopes, first, (py_ - p * row_total(py_)) * share)


@njit(**INLINED)
def _backward(tokens, tables, tables_, scratch, scratch_, sums_, d, n, zero, block):
    rows = rows_in(block)
    for k in range(0, n, rows):
        p, p_, written_, later = block, block, block, np.int64(0)
        last = moment(tokens.size - 1, k, tokens.size, d, block)
        after, after_ = load(scratch.states, last, block), load(scratch_.states, last, block)
        for back in range(2, tokens.size + 1):
            t = tokens.size - back
            u = np.int64(tokens[t])
            row, next_row = place(u, k, d, block), place(later, k, d, block)
            here = moment(t, k, tokens.size, d, block)
            g = repeated(load(scratch.slopes, t * d, zero), block)
            g_ = repeated(load(scratch_.slopes, t * d, zero), block)
            kept = load(tables.transition, next_row, block)
            read = load(tables.read, row, block)
            p_ = kept * p_ + load(tables_.transition, next_row, block) * p
            p_ = p_ + g_ * read + g * load(tables_.read, row, block)
            p = kept * p + g * read
            h, h_ = load(scratch.states, here, block), load(scratch_.states, here, block)
            store(sums_.transition, row, load(sums_.transition, row, block) + p_ * h + p * h_)
            store(sums_.read, row, load(sums_.read, row, block) + g_ * after + g * after_)
            written_ = written_ + p_ * repeated(load(tables.hot, u * d, zero), block)
            after, after_, later = h, h_, u
        store(sums_.write, k * d, load(sums_.write, k * d, block) + written_)


@njit(**INLINED)
def _contract(params, v, tables, tables_, sums, sums_, result, d, n, zero, block):
    b, c, a = d * d, d * d + n * d, d * d + 2 * n * d
    result[a:] = 0
    for u in range(d):
        delta, delta_ = load(tables.delta, u * d, zero), load(tables_.delta, u * d, zero)
        step, step_, diagonal, diagonal_ = zero, zero, params.dtype.type(0), params.dtype.type(0)
        for k in range(n):
            row = place(u, k, d, block)
            s, s_ = load(sums.transition, row, zero), load(sums_.transition, row, zero)
            kept, kept_ = load(tables.transition, row, zero), load(tables_.transition, row, zero)
            p = kept * s
            p_ = kept_ * s + kept * s_
            step = step + p * params[a + k]
            step_ = step_ + p_ * params[a + k] + p * v[a + k]
            result[a + k] += total(p_ * delta + p * delta_)
            result[c + k * d + u] = total(load(sums_.read, row, zero))
            w, w_ = sums.write[k * d + u], sums_.write[k * d + u]
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
