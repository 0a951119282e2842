"""The shape that Theorems B.5 and B.6 share: four terms and two step-size conditions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import Floats


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


def right_side(
    coefficients: tuple[float, float, float, float],
    drift_smoothness: Floats,
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
    """Return a theorem's right-hand side.

    Args:
        coefficients: of the four terms.
        drift_smoothness: smoothness of the local objective, which governs drift.
        initial_gap: f(W^0) - f*.
        rounds: T.
        local_steps: E.
        learning_rate: eta.
        batch_size: sequences per step Xi.
        weights: p_k.
        smoothness: of the clients' losses.
        gradient: bound on their gradients.
        heterogeneity: H_TV.

    Returns:
        The bound by term, with the conditions beside it.
    """
    eta, steps, size = float(learning_rate), float(local_steps), float(batch_size)
    smooth, squared = np.asarray(smoothness, float), np.square(np.asarray(gradient, float))
    local = np.asarray(drift_smoothness, float)
    concentration = float(np.sum(np.square(weights)))
    a, b, c, d = coefficients
    terms = (
        a * np.asarray(initial_gap, float) / (eta * steps * rounds),
        b * eta * smooth * squared / size * concentration,
        c * eta**2 * local**2 * (steps - 1) * squared / size,
        d * eta**2 * local**2 * steps * (steps - 1) * squared * np.asarray(heterogeneity),
    )
    drift = 12 * eta**2 * local**2 * steps * (steps - 1)
    if local_steps == 1:
        # One step does not drift; 0 * infinity must not say otherwise.
        nothing = np.zeros_like(terms[1])
        terms, drift = (*terms[:2], nothing, nothing), nothing
    return ConvergenceBound(*terms, np.asarray(sum(terms)), eta * steps * smooth, drift)
