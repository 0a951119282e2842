"""Persistency of excitation: how positive an interaction is on a cap, and over how many layers.

Silvestre et al., Assumption IV.1. The smallest value of a quadratic form on a cap is computed
exactly, as a trust-region problem on the cap's rim.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.theory.consensus import Constants, weight

# Caps that are tried.
CAPS = tuple(np.round(np.arange(0.1, 0.95, 0.1), 1).tolist())
# Components below this share of the whole are taken for zero in the hard case.
NOTHING = 1e-14
# Where the root of the secular equation is looked for, and until when.
SMALLEST_SHIFT, BISECTIONS = 1e-20, 80


class Excitation(NamedTuple):
    """Assumption IV.1 for layers visited in turn, one unit of time each.

    Attributes:
        c: height of the cap.
        window: T, layers.
        rho: smallest mean of alpha_c over windows of that length; positive.
        weakest: smallest alpha_c of a layer.
    """

    c: float
    window: int
    rho: float
    weakest: float


def cap_minimum(kernel: np.ndarray, axis: int, c: float) -> float:
    """Return the smallest z^T K z over |z| = 1 with |z^a| >= c.

    Args:
        kernel: K, (n, n), n at least 2.
        axis: a.
        c: height of the cap, in [0, 1].

    Returns:
        The exact minimum.
    """
    symmetric = (kernel + kernel.T) / 2
    values, vectors = np.linalg.eigh(symmetric)
    if abs(vectors[axis, 0]) >= c:
        return float(values[0])
    others = np.arange(len(kernel)) != axis
    height = float(symmetric[axis, axis])
    reach = float(np.sqrt(1 - c * c))
    if reach == 0:
        return height
    slope, inner = symmetric[others, axis], symmetric[np.ix_(others, others)]
    rim = _rim_minimum(inner, c / reach * slope)
    return c * c * height + reach * reach * rim


def _rim_minimum(inner: np.ndarray, slope: np.ndarray) -> float:
    """Return the minimum of e^T A e + 2 h^T e over |e| = 1."""
    values, vectors = np.linalg.eigh(inner)
    h, above = vectors.T @ slope, values - values[0]
    scale = max(float(np.linalg.norm(h)), float(above[-1]))
    lowest = above <= NOTHING * scale
    if np.linalg.norm(h[lowest]) <= NOTHING * scale:
        # The hard case: nothing pulls along the lowest eigenvector, whose share is what is left.
        h[lowest] = 0.0
        e = np.zeros_like(h)
        e[~lowest] = -h[~lowest] / above[~lowest]
        left = 1 - float(e @ e)
        if left >= 0:
            e[0] = np.sqrt(left)
            return float(e @ (values * e) + 2 * h @ e)
    # e = -(A - mu I)^-1 h with |e| = 1 has one root mu below the lowest eigenvalue, at most |h| and
    # at least h's share along the lowest eigenvectors away from it. Halved in the logarithm, so
    # that a root near an eigenvalue has its digits too.
    near = max(float(np.linalg.norm(h[lowest])), SMALLEST_SHIFT * scale)
    far = float(np.linalg.norm(h))
    for _ in range(BISECTIONS):
        shift = np.sqrt(near) * np.sqrt(far)
        if np.linalg.norm(h / (above + shift)) > 1:
            near = shift
        else:
            far = shift
    e = -h / (above + near)
    e /= np.linalg.norm(e)
    return float(e @ (values * e) + 2 * h @ e)


def excited(kernels: Sequence[np.ndarray], axis: int, found: Constants, c: float) -> np.ndarray:
    """Return alpha_c of every layer: the smallest a_c on the cap.

    Args:
        kernels: S_BC of the layers, (n, n) each.
        axis: a.
        found: constants.
        c: height of the cap.

    Returns:
        (layers).
    """
    values = np.array([cap_minimum(kernel, axis, c) for kernel in kernels])
    return weight(values, c, found)


def excitation(kernels: Sequence[np.ndarray], axis: int, found: Constants) -> Excitation | None:
    """Return the shortest window over which layers in turn are positive on average.

    Args:
        kernels: S_BC of the layers, visited in turn for ever.
        axis: a.
        found: constants.

    Returns:
        Of the caps that are tried the one with the shortest window, then the largest rho; None if
        the mean of a whole turn is positive for none of them.
    """
    best: Excitation | None = None
    count = len(kernels)
    for c in CAPS:
        layers = excited(kernels, axis, found, c)
        prefix = np.concatenate([[0.0], np.cumsum(np.tile(layers, 2))])
        for window in range(1, count + 1):
            # Windows that begin within a layer lie between two that begin with one.
            rho = float((prefix[window : window + count] - prefix[:count]).min()) / window
            if rho > 0:
                made = Excitation(c, window, rho, float(layers.min()))
                if best is None or (window, -rho) < (best.window, -best.rho):
                    best = made
                break
    return best
