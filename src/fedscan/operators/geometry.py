"""How far and where a merge moves (paper, Appendix F and H.3): norms, cancellation, alignment.

Sums run over all parameters in float64; tied weights count once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedscan.operators.direction import Base, Expert, task_vector


class Alignment(NamedTuple):
    """A displacement d against the gradient g of f at theta_0.

    ``norm`` is ||d||, ``first_order`` is <g, d>, ``cosine`` that of d and -g (0 without either).
    """

    norm: float
    first_order: float
    cosine: float


def gram(base: Base, experts: Sequence[Expert]) -> Tensor:
    """Return the inner products of all task vectors.

    Args:
        base: theta_0.
        experts: theta_m.

    Returns:
        (M, M) float64, <T_i, T_j>; one tensor name is held at a time.
    """
    total = torch.zeros(len(experts), len(experts), dtype=torch.float64)
    for name in base:
        vectors = [task_vector(base, expert, name).flatten() for expert in experts]
        for i, one in enumerate(vectors):
            for j, other in enumerate(vectors[: i + 1]):
                total[i, j] += _dot(one, other)
    return total.tril() + total.tril(-1).T


def sum_ratio(products: Tensor) -> float:
    """Return ||sum_m T_m||^2 / sum_m ||T_m||^2.

    Args:
        products: result of ``gram``.

    Returns:
        1 for orthogonal task vectors, M for equal ones, 0 if they cancel; NaN if all are zero.
    """
    squares = float(products.trace())
    return float(products.sum()) / squares if squares > 0 else math.nan


def mean_cosines(products: Tensor) -> list[float | None]:
    """Return each task vector's mean cosine to the others.

    Args:
        products: result of ``gram``.

    Returns:
        One number per task vector; None for a single one, NaN where a norm is zero.
    """
    norms = products.diagonal().sqrt()
    cosines = products / torch.outer(norms, norms)
    others = len(norms) - 1
    if not others:
        return [None]
    return [float((row.sum() - row[i]) / others) for i, row in enumerate(cosines)]


def alignment(base: Base, moved: Expert, gradient: Mapping[str, Tensor]) -> Alignment:
    """Compare a displacement with the negative gradient at its start.

    Args:
        base: theta_0.
        moved: a specialist or a merge.
        gradient: gradient of f at theta_0, by name.

    Returns:
        Norm, inner product with the gradient, cosine to its negative.
    """
    squares = product = slope = 0.0
    for name in base:
        change = task_vector(base, moved, name).flatten()
        direction = gradient[name].flatten().to(change)
        squares += _dot(change, change)
        product += _dot(direction, change)
        slope += _dot(direction, direction)
    scale = math.sqrt(squares * slope)
    return Alignment(math.sqrt(squares), product, -product / scale if scale > 0 else 0.0)


def _dot(one: Tensor, other: Tensor) -> float:
    """Return an inner product in float64, in parts, so that no float64 copy is made of it all."""
    part = 1 << 20
    starts = range(0, len(one), part)
    pairs = ((one[start : start + part], other[start : start + part]) for start in starts)
    return sum(float(torch.dot(a.double(), b.double())) for a, b in pairs)
