"""Flexible selective retrieval with fixed routing: kernels, scores and margins.

Horbatko, "Sessa: Selective State Space Attention", section 4.2.8 and appendix K. NumPy in float64.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln


class Margins(NamedTuple):
    """Scores of a retrieval at lags 1 .. H.

    Attributes:
        score: of the source, (H).
        competitors: sum over other earlier sources of |score|, (H).
    """

    score: np.ndarray
    competitors: np.ndarray

    @property
    def margin(self) -> np.ndarray:
        """Score less competitors, (H)."""
        return np.asarray(self.score - self.competitors)


def macro_kernel(beta: float, length: int) -> np.ndarray:
    """Return M = I + Theta U diag(m) of one macro-layer (K).

    Theta is the kernel of uniform routing with gain 1 - beta, U averages over all positions up to
    one's own, and m_j = (j + 1)^(1 - beta).

    Args:
        beta: decay exponent in (0, 1).
        length: tokens.

    Returns:
        (length, length), lower triangular.
    """
    t = np.arange(length)
    average = np.tril(np.ones((length, length))) / (t + 1)[:, None]
    loop = np.zeros((length, length))
    loop[1:] = np.tril(np.ones((length, length)), -1)[1:] * (1 - beta) / t[1:, None]
    sources = average * (t + 1.0) ** (1 - beta)
    spread = solve_triangular(np.eye(length) - loop, sources, lower=True, unit_diagonal=True)
    return np.asarray(np.eye(length) + spread)


def macro_applied(beta: float, x: np.ndarray) -> np.ndarray:
    """Return M x of one macro-layer in time linear in the length.

    Args:
        beta: decay exponent in (0, 1).
        x: (length).

    Returns:
        (length).
    """
    gain, t = 1 - beta, np.arange(len(x), dtype=float)
    f = np.cumsum((t + 1) ** gain * x) / (t + 1)
    # Sums P of the loop's outputs obey P_t = (1 + gain / t) P_{t-1} + f_t, grown by G.
    G = np.exp(gammaln(t + 1 + gain) - gammaln(t + 1) - gammaln(1 + gain))
    sums = G * np.cumsum(f / G)
    loop = f.copy()
    loop[1:] += gain * sums[:-1] / t[1:]
    return np.asarray(x + loop)


def exponent_error(beta: float, layers: int, source: int, lag: float) -> float:
    """Return about how far a score's local exponent is from nu at a finite lag (ours).

    k hops grow as (t^c - (source + 1)^c)^(k-1), c = 1 - beta, not yet as t^(c(k-1)).

    Args:
        beta: decay exponent in (0, 1).
        layers: macro-layers k.
        source: tau*.
        lag: tokens, above source + 1.

    Returns:
        (k - 1) c / ((lag / (source + 1))^c - 1): it vanishes with the lag, slowly where beta is
        near 1.
    """
    c = 1 - beta
    return (layers - 1) * c / float((lag / (source + 1)) ** c - 1)


def gates(source: int, horizon: int, leak: float) -> np.ndarray:
    """Return sigma: 1 at the source, leak / (horizon + 1) elsewhere.

    Args:
        source: tau*.
        horizon: largest lag H.
        leak: c0.

    Returns:
        (source + horizon + 1).
    """
    found = np.full(source + horizon + 1, leak / (horizon + 1))
    found[source] = 1.0
    return found


def margins(kernel: np.ndarray, source: int) -> Margins:
    """Return scores of a source and of what competes with it.

    Args:
        kernel: of the whole stack, (length, length).
        source: tau*.

    Returns:
        Lags 1 .. length - source - 1.
    """
    rows = kernel[source + 1 :]
    score = rows[:, source]
    earlier = np.tril(np.abs(kernel), -1)[source + 1 :].sum(axis=1)
    return Margins(score, earlier - np.abs(score))


def selective_kernel(
    beta: float, layers: int, source: int, horizon: int, leak: float
) -> np.ndarray:
    """Return M^k diag(sigma).

    Args:
        beta: decay exponent in (0, 1).
        layers: macro-layers k.
        source: tau*.
        horizon: largest lag H.
        leak: c0.

    Returns:
        (source + horizon + 1) squared.
    """
    macro = macro_kernel(beta, source + horizon + 1)
    powers = np.linalg.matrix_power(macro, layers)
    return np.asarray(powers * gates(source, horizon, leak))


def profile_exponent(beta: float, layers: int) -> float:
    """Return nu_k(beta) = k (1 - beta) - 1 of Theorem 12: decaying, frozen (0) or growing.

    Args:
        beta: decay exponent in (0, 1).
        layers: macro-layers k.
    """
    return layers * (1 - beta) - 1
