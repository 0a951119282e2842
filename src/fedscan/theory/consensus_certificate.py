"""Rates and radii that Theorem IV.1 certifies, as numbers.

Silvestre et al., Lemmas .1 and .2 of the appendix and the proof of Theorem IV.1. The constant M of
the coupling is made explicit here: 4 sup||S_BC|| lambda_max (spectral norm).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedscan.theory.consensus import Constants
from fedscan.theory.excitation import Excitation

SMALLEST = 1e-300


class Certificate(NamedTuple):
    """V_i(t) <= factors_i radii_i exp(-rates_i t) for V_i(0) < radii_i, i from the first token.

    Attributes:
        rates: 1 / time.
        factors: at least 1.
        radii: of V_i = 1 - |z_i^a|.
    """

    rates: tuple[float, ...]
    factors: tuple[float, ...]
    radii: tuple[float, ...]


def slack_radius(epsilon: float, c: float, norm: float, lambda_sum: float) -> float:
    """Return d_epsilon of Proposition IV.1: how near a token must be to lose epsilon at most.

    Args:
        epsilon: positive.
        c: height of the cap.
        norm: sup||S_BC||, spectral.
        lambda_sum: Lambda.

    Returns:
        min(1 - c, epsilon^2 / (8 Lambda^2 ||S_BC||^2)).
    """
    coupled = 8 * (lambda_sum * norm) ** 2
    return min(1 - c, epsilon**2 / coupled) if coupled else 1 - c


def decay_of_sequence(theta: float, window: float, nu: float) -> tuple[float, float]:
    """Return rate and factor of Lemma .2.

    Args:
        theta: in (0, 1), contraction per window.
        window: T.
        nu: rate of what drives the sequence.

    Returns:
        rate = min(-ln theta / T, nu) / 2, factor C = (1 - theta) / (exp(-rate T) - theta).
    """
    rate = min(-math.log(theta) / window, nu) / 2
    return rate, (1 - theta) / (math.exp(-rate * window) - theta)


def chained_radii(
    first: float, factors: Sequence[float], coupling: float, contraction: float
) -> list[float]:
    """Return the radii of Lemma .1: each token's must outweigh all earlier ones'.

    Args:
        first: d_1.
        factors: M_j of all tokens.
        coupling: H.
        contraction: mu of the lemma.

    Returns:
        d_i = 2 d_{i-1} + (2 H / mu) sum over j < i of sqrt(2 M_j d_j).
    """
    radii = [first]
    for _ in factors[1:]:
        driven = sum(math.sqrt(2 * m * d) for m, d in zip(factors, radii, strict=False))
        radii.append(2 * radii[-1] + 2 * coupling / contraction * driven)
    return radii


def certificate(
    found: Constants, excited: Excitation, norm: float, tokens: int, epsilon: float
) -> Certificate | None:
    """Return what Theorem IV.1 certifies.

    Args:
        found: constants.
        excited: window, rho and cap of Assumption IV.1.
        norm: sup||S_BC||, spectral.
        tokens: l.
        epsilon: in (0, rho).

    Returns:
        Rates, factors and radii; None where the radii are below what float64 can tell from zero.
    """
    window, rho = float(excited.window), excited.rho
    theta = math.exp(-(rho - epsilon) * window)
    eta_zero = min(0.0, excited.weakest)
    eta = min(epsilon, excited.weakest) - epsilon
    overshoot = math.exp(-eta * window)
    bound = 2 * overshoot
    coupling = window * 4 * norm * found.lambda_max * overshoot
    rates, factors = [rho], [math.exp((rho - eta_zero) * window)]
    for _ in range(1, tokens):
        rate, factor = decay_of_sequence(theta, window, min(rates) / 2)
        rates.append(rate)
        factors.append(max(1.0, math.exp(rate * window) * (factor * overshoot + 1 - theta)))
    largest = slack_radius(epsilon, excited.c, norm, found.lambda_sum) / bound
    first = min(largest, (1 - excited.c) * math.exp(eta_zero * window)) / 2
    while first > SMALLEST:
        radii = chained_radii(first, factors, coupling, min(1 - theta, bound - overshoot))
        if max(radii) < largest:
            return Certificate(tuple(rates), tuple(factors), tuple(radii))
        first /= 2
    return None
