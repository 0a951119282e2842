"""Drawing token sequences from a layer used as a generative model, compiled per shape."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fedscan.models.selective_ssm.cpu.passes import compiled, fill_tables, new_tables
from fedscan.models.selective_ssm.cpu.rows import (
    exp,
    load,
    load_scalars,
    repeated,
    row_largest,
    rows_in,
    store,
    sum_of_rows,
    zeros,
)
from fedscan.models.selective_ssm.layout import Shape


@functools.cache
def sampler(shape: Shape) -> Callable[..., Any]:
    """Return the compiled sampler: x_1 uniform, then x_{t+1} ~ softmax(y_t / temperature).

    Args:
        shape: sizes of the layer.

    Returns:
        (params, temperature, uniforms, tokens) -> None; ``uniforms`` (sequences, length) in [0, 1)
        decide every draw by the inverse of the cumulative distribution, which is summed in
        float64; fills ``tokens`` (sequences, length) uint8.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, temperature, uniforms, tokens):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        rows = rows_in(block)
        tables = new_tables(params, d, n)
        state, weights = np.empty(n * d, params.dtype), np.empty(d, params.dtype)
        fill_tables(params, tables, d, n, zero)
        inverse = params.dtype.type(1) / params.dtype.type(temperature)
        for i in range(uniforms.shape[0]):
            u = min(np.int64(uniforms[i, 0] * d), d - 1)
            tokens[i, 0] = u
            for k in range(0, n, rows):
                store(state, k * d, block)
            for t in range(1, uniforms.shape[1]):
                hot, read = repeated(load(tables.hot, u * d, zero), block), block
                for k in range(0, n, rows):
                    kept = load(tables.transition, (u * n + k) * d, block)
                    h = kept * load(state, k * d, block)
                    h = h + hot * load_scalars(tables.write, u * n + k, block)
                    store(state, k * d, h)
                    read = read + h * load_scalars(tables.read, u * n + k, block)
                y = sum_of_rows(read) * inverse
                store(weights, 0, exp(y - row_largest(y)))
                u = _draw(weights, uniforms[i, t], d)
                tokens[i, t] = u

    return run


@njit(error_model="numpy")
def _draw(weights, uniform, d):
    total = 0.0
    for i in range(d):
        total += weights[i]
    below = uniform * total
    for i in range(d):
        below -= weights[i]
        if below < 0:
            return i
    return d - 1
