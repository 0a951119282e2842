"""Drawing token sequences from a layer used as a generative model, compiled per shape."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fedscan.models.selective_ssm.cpu.passes import compiled, fill_tables, new_tables, place
from fedscan.models.selective_ssm.cpu.rows import (
    exp,
    load,
    row_largest,
    store,
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
        float64; fills ``tokens`` (sequences, length) uint8. Logits are summed row by row, in no
        blocks: their width depends on the machine, and a draw may hang on the last bit.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, temperature, uniforms, tokens):
        zero = zeros(params, d, 1)
        tables = new_tables(params, d, n)
        state, weights = np.empty(n * d, params.dtype), np.empty(d, params.dtype)
        fill_tables(params, tables, d, n, zero, zero)
        inverse = params.dtype.type(1) / params.dtype.type(temperature)
        for i in range(uniforms.shape[0]):
            u = min(np.int64(uniforms[i, 0] * d), d - 1)
            tokens[i, 0] = u
            for k in range(n):
                store(state, k * d, zero)
            for t in range(1, uniforms.shape[1]):
                y = zero
                for k in range(n):
                    row = place(u, k, d, zero)
                    h = load(tables.transition, row, zero) * load(state, k * d, zero)
                    h = h + load(tables.write, row, zero)
                    store(state, k * d, h)
                    y = y + h * load(tables.read, row, zero)
                y = y * inverse
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
