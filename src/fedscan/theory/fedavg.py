"""Theorem B.5: convergence of FedAvg to a stationary point."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import Floats
from fedscan.theory.overflow import never_nan


class ConvergenceBound(NamedTuple):
    """Right-hand side of a convergence theorem, by term, and whether its conditions hold."""

    optimisation: Floats  # initial gap / (eta E T)
    variance: Floats  # noise of the mean step
    local_variance: Floats  # noise of the local steps
    heterogeneity: Floats  # disagreement of the clients
    bound: Floats  # their sum, on (1/T) sum_r E||grad f(W^r)||^2
    step_condition: Floats  # eta E L, which must not exceed 1/2
    drift_condition: Floats  # 12 eta^2 L^2 E (E-1), which must not exceed 1

    @property
    def applies(self) -> np.ndarray:
        """Whether both step-size conditions hold."""
        return np.asarray((self.step_condition <= 0.5) & (self.drift_condition <= 1.0))


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
    eta, steps, size = float(learning_rate), float(local_steps), float(batch_size)
    smooth, squared = np.asarray(smoothness, float), np.square(np.asarray(gradient, float))
    concentration = float(np.sum(np.square(weights)))
    terms = (
        4 * np.asarray(initial_gap, float) / (eta * steps * rounds),
        4 * eta * smooth * squared / size * concentration,
        6 * eta**2 * smooth**2 * (steps - 1) * squared / size,
        48 * eta**2 * smooth**2 * steps * (steps - 1) * squared * np.asarray(heterogeneity),
    )
    drift = 12 * eta**2 * smooth**2 * steps * (steps - 1)
    if local_steps == 1:
        # One step does not drift; 0 * infinity must not say otherwise.
        nothing = np.zeros_like(terms[1])
        terms, drift = (*terms[:2], nothing, nothing), nothing
    return ConvergenceBound(*terms, np.asarray(sum(terms)), eta * steps * smooth, drift)
