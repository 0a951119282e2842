"""Theorem B.6: convergence of FedProx, whose proximal term keeps local iterates closer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedscan.theory.constants import Floats
from fedscan.theory.convergence import ConvergenceBound, right_side
from fedscan.theory.overflow import never_nan


@never_nan
def proximal_radius(
    radius: ArrayLike, gradient: ArrayLike, mu: float, learning_rate: float, local_steps: ArrayLike
) -> Floats:
    """Return R_mu = min{R, (G/mu) [1 - (1 - eta mu)^E]}, the reach of E proximal local steps.

    Args:
        radius: R.
        gradient: G_{SSM,R}.
        mu: coefficient of the proximal term; in the limit 0 the reach is eta E G.
        learning_rate: eta.
        local_steps: E, or the number e of steps taken so far.

    Returns:
        The radius per point.

    Raises:
        ValueError: unless 0 <= eta mu <= 1.
    """
    shrink = learning_rate * mu
    if not 0 <= shrink <= 1:
        raise ValueError(f"eta mu = {shrink} is outside [0, 1], where the theorem holds")
    steps = np.asarray(local_steps, float)
    if mu == 0:
        reach = learning_rate * steps
    elif shrink == 1:
        reach = np.where(steps > 0, 1.0, 0.0) / mu
    else:
        reach = -np.expm1(steps * np.log1p(-shrink)) / mu
    farthest = np.asarray(gradient, float) * reach
    return np.asarray(np.minimum(np.asarray(radius, float), farthest))


@never_nan
def fedprox_bound(
    initial_gap: Floats,
    rounds: int,
    local_steps: int,
    learning_rate: float,
    batch_size: int,
    weights: Sequence[float],
    smoothness: Floats,
    gradient: Floats,
    heterogeneity: Floats,
    mu: float,
) -> ConvergenceBound:
    """Return the right-hand side of Theorem B.6.

    Args:
        initial_gap: f(W^0) - f*.
        rounds: T.
        local_steps: E.
        learning_rate: eta.
        batch_size: sequences per step Xi.
        weights: p_k.
        smoothness: L_mu, L_SSM on the ball of radius R_mu.
        gradient: G_mu, G_SSM on that ball.
        heterogeneity: H_TV.
        mu: coefficient of the proximal term.

    Returns:
        The bound by term, with the theorem's conditions beside it.
    """
    return right_side(
        (3.0, 3.0, 3.0, 24.0),
        np.asarray(smoothness, float) + mu,
        initial_gap,
        rounds,
        local_steps,
        learning_rate,
        batch_size,
        weights,
        smoothness,
        gradient,
        heterogeneity,
    )
