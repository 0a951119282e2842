"""Losses and gradients of one-hot sequences, compiled per shape."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fedscan.models.selective_ssm.cpu.passes import (
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
from fedscan.models.selective_ssm.cpu.rows import load, store, zeros
from fedscan.models.selective_ssm.layout import Shape


@functools.cache
def batch(shape: Shape) -> Callable[..., Any]:
    """Return the compiled mean loss and gradient of a batch.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, gradient) -> loss; fills ``gradient``.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, tokens, gradient):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        tables, sums = new_tables(params, d, n), new_sums(params, d, n)
        scratch = new_scratch(params, d, n, tokens.shape[1], block)
        fill_tables(params, tables, d, n, zero, block)
        clear(sums, d, n, block)
        weight = params.dtype.type(1) / params.dtype.type(tokens.shape[0])
        loss = 0.0
        for i in range(tokens.shape[0]):
            forward(tokens[i], tables, scratch, d, n, zero, block)
            loss += loss_adjoint(tokens[i], scratch, d, block, weight)
            backward(tokens[i], tables, scratch, sums, d, n, zero, block)
        contract(params, tables, sums, gradient, d, n, zero, block)
        return loss / tokens.shape[0]

    return run


@functools.cache
def sequences(shape: Shape) -> Callable[..., Any]:
    """Return the compiled loss and gradient of every sequence by itself.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, losses, gradients) -> None; fills the last two.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, tokens, losses, gradients):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        tables, sums = new_tables(params, d, n), new_sums(params, d, n)
        scratch = new_scratch(params, d, n, tokens.shape[1], block)
        fill_tables(params, tables, d, n, zero, block)
        one = params.dtype.type(1)
        for i in range(tokens.shape[0]):
            clear(sums, d, n, block)
            forward(tokens[i], tables, scratch, d, n, zero, block)
            losses[i] = loss_adjoint(tokens[i], scratch, d, block, one)
            backward(tokens[i], tables, scratch, sums, d, n, zero, block)
            contract(params, tables, sums, gradients[i], d, n, zero, block)

    return run


@functools.cache
def losses(shape: Shape) -> Callable[..., Any]:
    """Return the compiled loss of every sequence, nothing else.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, losses) -> None; fills the last.
    """
    d, n = shape

    @njit(**compiled())
    def run(params, tokens, losses):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        tables = new_tables(params, d, n)
        scratch = new_scratch(params, d, n, tokens.shape[1], block)
        fill_tables(params, tables, d, n, zero, block)
        one = params.dtype.type(1)
        for i in range(tokens.shape[0]):
            forward(tokens[i], tables, scratch, d, n, zero, block)
            losses[i] = loss_adjoint(tokens[i], scratch, d, block, one)

    return run


@functools.cache
def predictions(shape: Shape) -> Callable[..., Any]:
    """Return the compiled loss and hits of every sequence, without gradients.

    Args:
        shape: sizes of the layer.

    Returns:
        (params, tokens, temperature, losses, hits, peaks) -> None; fills the last three: mean
        cross-entropy of logits / temperature, number of positions whose largest logit is the next
        token, largest absolute logit or state entry (NaN if one is not finite).
    """
    d, n = shape

    @njit(**compiled())
    def run(params, tokens, temperature, losses, hits, peaks):
        zero, block = zeros(params, d, 1), zeros(params, d, n)
        tables = new_tables(params, d, n)
        scratch = new_scratch(params, d, n, tokens.shape[1], block)
        fill_tables(params, tables, d, n, zero, block)
        inverse = params.dtype.type(1) / params.dtype.type(temperature)
        steps = tokens.shape[1] - 1
        for i in range(tokens.shape[0]):
            forward(tokens[i], tables, scratch, d, n, zero, block)
            peak = max(np.abs(scratch.logits[: steps * d]).max(), np.abs(scratch.states).max())
            # max drops NaN; a sum does not.
            peaks[i] = peak + 0 * scratch.logits[: steps * d].sum()
            hits[i] = 0
            for t in range(steps):
                chosen = np.argmax(scratch.logits[t * d : t * d + d])
                hits[i] += chosen == tokens[i, t + 1]
                store(scratch.logits, t * d, load(scratch.logits, t * d, zero) * inverse)
            losses[i] = loss_adjoint(tokens[i], scratch, d, block, inverse)

    return run
