"""Projected SGD on one-hot sequences, many steps per call, compiled per shape."""

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
    contract,
    fill_tables,
    forward,
    loss_adjoint,
    new_scratch,
    new_sums,
    new_tables,
)
from fedscan.models.selective_ssm.cpu.rows import zeros
from fedscan.models.selective_ssm.layout import Shape


@njit(**INLINED)
def _step(params, start, gradient, floor, ceiling, rate, mu, d, a, record):
    """Update ``params`` in place; write norm, distance and projected entries to ``record``."""
    direction_squared, moved_squared, projected = 0.0, 0.0, 0
    for i in range(params.size):
        direction = gradient[i] + mu * (params[i] - start[i])
        direction_squared += np.float64(direction) * np.float64(direction)
        value = params[i] - rate * direction
        if i < d * d and value < floor:
            value, projected = floor, projected + 1
        elif i >= a and value > ceiling:
            value, projected = ceiling, projected + 1
        params[i] = value
        moved = np.float64(value) - np.float64(start[i])
        moved_squared += moved * moved
    record[1], record[2] = np.sqrt(direction_squared), np.sqrt(moved_squared)
    record[3] = projected


@functools.cache
def local_steps(shape: Shape) -> Callable[..., Any]:
    """Return compiled projected SGD steps (paper, Appendix G.3), with an optional proximal term.

    Every step moves along the batch gradient plus mu (W - W_start), then clamps W_delta from below
    and A from above: the projection onto the stability set.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, batches, rate, floor, ceiling, mu, record) -> None. Changes ``params`` in
        place; ``batches`` (steps, batch) are indices of sequences; ``record`` (steps, 6) float64
        becomes per step: loss before it, norm of the direction, distance from the start after it,
        entries projected, smallest W_delta and largest A after it.
    """
    d, n = shape
    a = d * d + 2 * n * d

    @njit(**compiled())
    def run(params, tokens, batches, rate, floor, ceiling, mu, record):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        start, gradient = params.copy(), np.empty_like(params)
        tables, sums = new_tables(params, d, n), new_sums(params, d, n)
        scratch = new_scratch(params, d, n, tokens.shape[1], block)
        steps, size = batches.shape
        weight = params.dtype.type(1) / params.dtype.type(size)
        for e in range(steps):
            fill_tables(params, tables, d, n, zero, block)
            clear(sums, d, n, block)
            loss = 0.0
            for i in range(size):
                word = tokens[batches[e, i]]
                forward(word, tables, scratch, d, n, zero, block)
                loss += loss_adjoint(word, scratch, d, block, weight)
                backward(word, tables, scratch, sums, d, n, zero, block)
            contract(params, tables, sums, gradient, d, n, zero, block)
            record[e, 0] = loss / size
            _step(params, start, gradient, floor, ceiling, rate, mu, d, a, record[e])
            record[e, 4] = params[: d * d].min()
            record[e, 5] = params[a:].max()

    return run
