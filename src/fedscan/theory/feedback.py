"""Closed forms and bounds of the feedback loop (I - B) s = f with fixed routing.

Horbatko, "Sessa: Selective State Space Attention", sections 2, 4.1, 4.2 and appendices C to G.
NumPy in float64; K = (I - B)^-1 is the loop's kernel, beta = 1 - eta its decay exponent.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln


class TwoSided(NamedTuple):
    """Constants of F.3: low (lag + 1)^-beta <= K <= high lag^-beta, sources up to a largest."""

    low: float
    high: float


def kernel(B: np.ndarray) -> np.ndarray:
    """Return K = (I - B)^-1, which is also the sum of B^k over k < T.

    Args:
        B: strictly lower triangular, (length, length).

    Returns:
        (length, length), unit lower triangular.
    """
    length = len(B)
    return np.asarray(
        solve_triangular(np.eye(length) - B, np.eye(length), lower=True, unit_diagonal=True)
    )


def routing(logits: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """Return B_tj = gain_t softmax over j < t of the logits; row 0 is zero.

    Args:
        logits: (length, length); entries with j >= t are not read.
        gains: (length).

    Returns:
        (length, length).
    """
    B = np.zeros_like(logits, dtype=float)
    for t in range(1, len(logits)):
        row = np.exp(logits[t, :t] - logits[t, :t].max())
        B[t, :t] = gains[t] * row / row.sum()
    return B


def solution_bound(rho: float) -> float:
    """Return the bound of Lemma 4.2 on max |s| / max |f|, and on the rows' sums of |K|.

    Args:
        rho: largest gain in magnitude, below 1.
    """
    return 1 / (1 - rho)


def softmax_range(spread: float, entries: int) -> tuple[float, float]:
    """Return between what a softmax's weights lie (C.1).

    Args:
        spread: largest logit - smallest.
        entries: n.

    Returns:
        exp(-spread) / n, exp(spread) / n.
    """
    return math.exp(-spread) / entries, math.exp(spread) / entries


def softmax_slope_bound(weights: np.ndarray, slopes: np.ndarray) -> float:
    """Return the bound of 4.3 on the sum over j of ||d alpha_j / d z||.

    Args:
        weights: alpha, (entries).
        slopes: ||d logit_i / d z||, (entries).

    Returns:
        2 sum of alpha_i slope_i.
    """
    return float(2 * (weights * slopes).sum())


def decay_bound(gain_max: float, c2: float, lags: np.ndarray) -> np.ndarray | None:
    """Return the bound of Theorem 8 on |K_{tau + lag, tau}| for every source tau.

    Args:
        gain_max: largest gain in magnitude.
        c2: largest of t alpha_tj.
        lags: at least 1, any shape.

    Returns:
        eta e^eta lag^-(1 - eta), eta = gain_max c2; None for eta >= 1, where there is no claim.
    """
    eta = gain_max * c2
    if eta >= 1:
        return None
    return np.asarray(eta * math.exp(eta) * np.asarray(lags, float) ** (eta - 1))


def realised_c2(alpha: np.ndarray) -> float:
    """Return the largest t alpha_tj of a routing.

    Args:
        alpha: rows of weights over j < t, (length, length).
    """
    positions = np.arange(len(alpha))[:, None]
    return float((positions * np.tril(alpha, -1)).max())


def uniform_kernel(gain: float, source: np.ndarray | float, lags: np.ndarray) -> np.ndarray:
    """Return K_{tau + lag, tau} of uniform routing alpha_tj = 1/t with one gain (F.2).

    Args:
        gain: gamma in (0, 1).
        source: tau.
        lags: at least 1.

    Returns:
        gamma Gamma(tau+1) Gamma(tau+lag+gamma) / (Gamma(tau+1+gamma) Gamma(tau+lag+1)).
    """
    tau, lag = np.asarray(source, float), np.asarray(lags, float)
    logs = gammaln(tau + 1) - gammaln(tau + 1 + gain)
    logs = logs + gammaln(tau + lag + gain) - gammaln(tau + lag + 1)
    return np.asarray(gain * np.exp(logs))


def uniform_exponent(gain: float, source: float, lags: np.ndarray) -> np.ndarray:
    """Return d log K / d log lag of uniform routing; it tends to -(1 - gain).

    Args:
        gain: gamma.
        source: tau.
        lags: at least 1.
    """
    lag = np.asarray(lags, float)
    return np.asarray(lag * (digamma(source + lag + gain) - digamma(source + lag + 1)))


def uniform_constant(gain: float, source: np.ndarray | float) -> np.ndarray:
    """Return a_tau of F.3, what K lag^(1 - gain) tends to; it falls as tau^-gain.

    Args:
        gain: gamma in (0, 1).
        source: tau.

    Returns:
        gamma Gamma(tau+1) / Gamma(tau+1+gamma).
    """
    tau = np.asarray(source, float)
    return np.asarray(gain * np.exp(gammaln(tau + 1) - gammaln(tau + 1 + gain)))


def uniform_two_sided(gain: float, largest_source: int) -> TwoSided:
    """Return the constants of F.3 for sources 0 .. largest_source.

    Args:
        gain: gamma.
        largest_source: tau_max; no constants hold for all sources.
    """
    a = uniform_constant(gain, np.arange(largest_source + 1))
    return TwoSided(float(a.min() * (largest_source + 2) ** (gain - 1)), float(a.max()))


def uniform_response(gain: float, length: int) -> np.ndarray:
    """Return s of f = 1 under uniform routing (ours): increasing to 1 / (1 - gamma).

    Args:
        gain: gamma.
        length: tokens.

    Returns:
        (length): (1 - gamma Gamma(t+gamma) / (Gamma(gamma) Gamma(t+1))) / (1 - gamma), s_0 = 1.
    """
    t = np.arange(length, dtype=float)
    ratio = np.exp(gammaln(t + gain) - gammaln(gain) - gammaln(t + 1))
    return np.asarray((1 - gain * ratio) / (1 - gain))


def harmonic_power_bound(hops: int, length: int) -> np.ndarray:
    """Return the bound (77) on (H^k)_{t tau}, H_{t tau} = 1[tau < t] / (t + 1).

    Args:
        hops: k, at least 1.
        length: tokens.

    Returns:
        h_t^(k-1) / ((t+1) (k-1)!), (length); h_t the harmonic number.
    """
    t = np.arange(length)
    harmonic = np.cumsum(1 / (t + 1.0))
    return np.asarray(harmonic ** (hops - 1) / ((t + 1) * math.factorial(hops - 1)))


def power_convolution_limit(beta: float, hops: int) -> float:
    """Return the limit of the k-fold convolution of n^-beta over n^(k(1-beta)-1) (ours).

    Args:
        beta: in (0, 1).
        hops: k.

    Returns:
        Gamma(1-beta)^k / Gamma(k(1-beta)).
    """
    return math.exp(hops * math.lgamma(1 - beta) - math.lgamma(hops * (1 - beta)))


def power_convolution_bound(beta: float, hops: int, lags: np.ndarray) -> np.ndarray:
    """Return a bound on the k-fold convolution of n^-beta, n >= 1, at every lag (ours).

    By Gautschi's inequality n^-beta is at most Gamma(n - beta) / Gamma(n), coefficients of
    (1 - x)^-(1 - beta), whose powers are known. Its ratio to the convolution tends to 1.

    Args:
        beta: in (0, 1).
        hops: k.
        lags: at least 1.

    Returns:
        Gamma(c)^k Gamma(lag-k+kc) / (Gamma(kc) Gamma(lag-k+1)), c = 1 - beta; 0 below lag k.
    """
    c, rest = 1 - beta, np.asarray(lags, float) - hops
    left = np.maximum(rest, 0)
    logs = hops * gammaln(c) - gammaln(hops * c) + gammaln(left + hops * c) - gammaln(left + 1)
    return np.where(rest >= 0, np.exp(logs), 0.0)


def hop_norms(B: np.ndarray, f: np.ndarray, hops: int) -> np.ndarray:
    """Return ||sum over k <= i of B^k f|| for i = 0 .. hops.

    Args:
        B: (length, length).
        f: (length, width).
        hops: feedback steps.

    Returns:
        (hops + 1).
    """
    term, total, norms = f, f.copy(), [float(np.linalg.norm(f))]
    for _ in range(hops):
        term = B @ term
        total = total + term
        norms.append(float(np.linalg.norm(total)))
    return np.array(norms)
