"""Theorem B.5: convergence of FedAvg to a stationary point."""

from collections.abc import Sequence

from fedscan.theory.constants import Floats
from fedscan.theory.convergence import ConvergenceBound, right_side
from fedscan.theory.overflow import never_nan


@never_nan
def fedavg_bound(
    initial_gap: Floats,
    rounds: int,
    local_steps: int,
    learning_rate: float,
    batch_size: int,
    weights: Sequence[float],
    smoothness: Floats,
    gradient: Floats,
    heterogeneity: Floats,
) -> ConvergenceBound:
    """Return the right-hand side of Theorem B.5.

    Args:
        initial_gap: f(W^0) - f*.
        rounds: T.
        local_steps: E.
        learning_rate: eta.
        batch_size: sequences per step Xi.
        weights: p_k.
        smoothness: L_{SSM,R}.
        gradient: G_{SSM,R}.
        heterogeneity: H_TV.

    Returns:
        The bound by term. It says nothing where its conditions fail; they are returned beside it.
    """
    return right_side(
        (4.0, 4.0, 6.0, 48.0),
        smoothness,
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
