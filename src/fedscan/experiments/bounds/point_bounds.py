"""Bounds at parameter points of one (D, N): theory evaluated for all points at once."""

from typing import NamedTuple

import numpy as np

from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.models.selective_ssm.stability import Margins, softplus
from fedscan.theory.constants import Norms, configured, realised, spectral_norms
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import infinite
from fedscan.theory.smoothness import smoothness_bound
from fedscan.theory.variation import bound_variation


class PointBounds(NamedTuple):
    """Arrays over points."""

    norms: Norms
    k_delta: np.ndarray
    k_b: np.ndarray
    G: np.ndarray
    G_tight: np.ndarray
    recurrent_share: np.ndarray
    L: np.ndarray
    L_tight: np.ndarray
    L_step: np.ndarray
    own: np.ndarray  # smoothness on the ball of the step, with the ball's own margins
    applicable: np.ndarray  # bool: that ball lies in the stability set
    gamma_hat: np.ndarray
    delta_hat: np.ndarray
    rho_hat: np.ndarray
    overflow: list[str]


def point_bounds(
    points: np.ndarray, shape: Shape, margins: Margins, rho: float, step: float, length: int
) -> PointBounds:
    """Evaluate every single-layer bound.

    Args:
        points: (points, parameters) float64.
        shape: sizes of the layer.
        margins: configured gamma and delta.
        rho: configured stability limit.
        step: length of the finite-difference steps, radius of their balls.
        length: stored tokens per sequence.

    Returns:
        Bounds per point.
    """
    layers = blocks(points, shape)
    norms, decay = spectral_norms(*layers), -np.log(rho)
    at_point, ball = configured(norms, decay, *shape), configured(norms, decay, *shape, radius=step)
    tight = realised(*layers, length=length)
    gradient, smooth = gradient_bound(at_point), smoothness_bound(at_point)
    gradient_tight, smooth_tight = gradient_bound(tight), smoothness_bound(tight)
    gamma, smallest = np.min(-layers.A, axis=1), np.min(layers.W_delta, axis=(1, 2))
    own_gamma, own_delta = gamma - step, softplus(smallest - step)
    own_decay = np.maximum(own_gamma, 0) * own_delta
    own = smoothness_bound(configured(norms, own_decay, *shape, radius=step)).bound
    named = [*infinite(gradient), *infinite(smooth), *infinite(gradient_tight)]
    return PointBounds(
        norms,
        at_point.step,
        gradient.k_b,
        gradient.bound,
        gradient_tight.bound,
        gradient.recurrent / gradient.bound,
        smooth.bound,
        smooth_tight.bound,
        smoothness_bound(ball).bound,
        own,
        (own_gamma >= margins.gamma) & (own_delta >= margins.delta),
        gamma,
        softplus(smallest),
        np.exp(-gamma * softplus(smallest)),
        named,
    )


class PairBounds(NamedTuple):
    """Bounds between two points; arrays over pairs."""

    distance: np.ndarray
    smoothness: np.ndarray  # L_{SSM,R} around the first point
    variation: np.ndarray  # L_{G,R} around the first point


def pair_bounds(first: np.ndarray, second: np.ndarray, shape: Shape, rho: float) -> PairBounds:
    """Evaluate Lipschitz constants on the ball around one point that reaches the other.

    Args:
        first: (pairs, parameters) centres.
        second: (pairs, parameters).
        shape: sizes of the layer.
        rho: configured stability limit.

    Returns:
        Bounds per pair.
    """
    distance = np.linalg.norm(second - first, axis=1)
    norms = spectral_norms(*blocks(first, shape))
    ball = configured(norms, -np.log(rho), *shape, radius=distance)
    return PairBounds(distance, smoothness_bound(ball).bound, bound_variation(ball))
