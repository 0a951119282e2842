"""Jacobians by autograd: all rows at once, or row by row where a layer has no batched slope."""

from collections.abc import Callable

import torch
from torch import Tensor


def batched(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return d run(x) / dx, all outputs in one backward pass.

    Args:
        run: made of operations that torch can batch.
        x: any shape.

    Returns:
        Shape of the output, then of x.
    """
    leaf, out = _applied(run, x)
    each = torch.eye(out.numel(), dtype=out.dtype).reshape(-1, *out.shape)
    (found,) = torch.autograd.grad(out, leaf, each, is_grads_batched=True, materialize_grads=True)
    return found.reshape(*out.shape, *x.shape)


def one_by_one(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return d run(x) / dx, a backward pass per output: for fused attention and the loop's solve.

    Args:
        run: any.
        x: any shape.

    Returns:
        Shape of the output, then of x.
    """
    leaf, out = _applied(run, x)
    rows = [torch.autograd.grad(one, leaf, retain_graph=True)[0] for one in out.flatten().unbind()]
    return torch.stack(rows).reshape(*out.shape, *x.shape)


def _applied(run: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        return leaf, run(leaf)
