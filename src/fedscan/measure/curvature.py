"""Curvature of many losses at once: Hessian norms and finite differences of gradients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# (directions (m, p), indices (m) of the losses they belong to) -> Hessian times direction (m, p)
Products = Callable[[np.ndarray, np.ndarray], np.ndarray]


class HessianNorms(NamedTuple):
    """Spectral norms of Hessians, estimated from below."""

    norms: np.ndarray  # (losses)
    iterations: np.ndarray  # (losses) int64
    converged: np.ndarray  # (losses) bool


def hessian_norms(
    products: Products, starts: np.ndarray, iterations: int, tolerance: float
) -> HessianNorms:
    """Estimate spectral norms by power iteration.

    The estimate is ||H v|| for the last unit vector v: never above the norm, and not below the
    Rayleigh quotient |v . H v|, also where the largest eigenvalues are of opposite sign.

    Args:
        products: exact Hessian-vector products.
        starts: (losses, p) first vectors, not zero.
        iterations: at most.
        tolerance: relative change of the Rayleigh quotient that stops.

    Returns:
        Norms with iterations taken.
    """
    v = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    count = len(v)
    norms, quotients = np.zeros(count), np.full(count, np.inf)
    taken, converged = np.zeros(count, np.int64), np.zeros(count, bool)
    for _ in range(iterations):
        active = np.flatnonzero(~converged)
        if not len(active):
            break
        image = products(v[active], active)
        quotient = np.sum(v[active] * image, axis=1)
        length = np.linalg.norm(image, axis=1)
        norms[active], taken[active] = length, taken[active] + 1
        settled = np.abs(quotient - quotients[active]) <= tolerance * np.abs(quotient)
        converged[active] = settled | (length == 0)
        quotients[active] = quotient
        moving = active[length > 0]
        v[moving] = image[length > 0] / length[length > 0, None]
    return HessianNorms(norms, taken, converged)
