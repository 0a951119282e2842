"""Bounds on how far a token reaches in attention, selective recurrences and the loop, end to end.

Horbatko, "Sessa: Selective State Space Attention", sections 4.3, appendices B and G. NumPy.
"""

import math
from typing import NamedTuple

import numpy as np

from fedscan.theory.feedback import harmonic_power_bound, power_convolution_bound


class LoopConstants(NamedTuple):
    """Realised constants of Theorem 23.

    Attributes:
        gain_max: largest |gain|.
        eta: gain_max times the largest t alpha_tj; below 1.
        largest_f: largest ||f_t||.
        f_slope: largest (t + 1) ||d f_t / d x_tau||, tau < t.
        f_own_slope: largest ||d f_t / d x_t||.
        route_slope: largest (t + 1) sum_i alpha_ti ||d logit_ti / d x_tau||, tau < t.
        route_own_slope: largest sum_j ||d alpha_tj / d x_t||.
        gain_slope: largest ||d gain_t / d x_t||.
    """

    gain_max: float
    eta: float
    largest_f: float
    f_slope: float
    f_own_slope: float
    route_slope: float
    route_own_slope: float
    gain_slope: float


def convolution_constant(beta: float) -> float:
    """Return C_beta = 2^beta + 2^beta / (1 - beta) of Lemma B.6.

    Args:
        beta: in (0, 1).
    """
    return float(2**beta * (1 + 1 / (1 - beta)))


def loop_envelope(lags: np.ndarray, beta: float) -> np.ndarray:
    """Return lag^-beta (1 + log(1 + lag)).

    Args:
        lags: at least 1.
        beta: decay exponent.
    """
    lag = np.asarray(lags, float)
    return np.asarray(lag**-beta * (1 + np.log1p(lag)))


def loop_jacobian_bound(constants: LoopConstants, lags: np.ndarray) -> np.ndarray | None:
    """Return the bound of Theorem 23 on ||d s_t / d x_tau||, tau < t.

    Args:
        constants: realised.
        lags: t - tau, at least 1.

    Returns:
        Same shape; None for eta >= 1, where there is no claim.
    """
    c = constants
    if c.eta >= 1 or c.gain_max >= 1:
        return None
    beta = 1 - c.eta
    solution = c.largest_f / (1 - c.gain_max)
    own = c.f_own_slope + c.gain_slope * solution + c.gain_max * solution * c.route_own_slope
    earlier = c.f_slope + 2 * c.gain_max * solution * c.route_slope
    factor = max(1.0, c.eta * np.exp(c.eta))
    # For eta = 0 the exponent is 1, where the constant has no value and nothing is convolved.
    spread = convolution_constant(beta) if c.eta > 0 else 0.0
    return np.asarray(factor * (own + (1 + spread) * earlier) * loop_envelope(lags, beta))


def recurrence_bound(
    out_norm: float, in_norm: float, rate: float, passed: np.ndarray
) -> np.ndarray:
    """Return the bound of Proposition 9ii on ||C_t prod A B_tau|| of a selective recurrence.

    Args:
        out_norm: largest ||C_t||.
        in_norm: largest ||B_tau||.
        rate: lambda, smallest decay rate.
        passed: sum of step sizes after tau up to t; where freeze time fails, at least c (t - tau).

    Returns:
        out_norm in_norm exp(-rate passed).
    """
    return np.asarray(out_norm * in_norm * np.exp(-rate * np.asarray(passed, float)))


def zoh_state_bound(largest_input: float, rate_min: float) -> float:
    """Return the bound of 4.4 on a zero-order-hold channel's state, from rest.

    Args:
        largest_input: M, largest |b_t|.
        rate_min: smallest decay rate a.

    Returns:
        M / rate_min.
    """
    return largest_input / rate_min


def zoh_jacobian_bound(
    rate_min: float,
    rate_max: float,
    step_slope: float,
    input_bound: float,
    map_bound: float,
    input_slope: float,
    map_slope: float,
    d_state: int,
) -> float:
    """Return J_R of Proposition 4: a bound on ||d h_tau / d x_tau|| of a zero-order-hold layer.

    h_t = exp(-a D_t) h_{t-1} + (1 - exp(-a D_t)) / a B_t u_t, entry by entry.

    Args:
        rate_min: lambda, smallest decay rate a.
        rate_max: largest.
        step_slope: Lipschitz constant of the step size D.
        input_bound: U, largest |u|.
        map_bound: G, largest ||B||.
        input_slope: of u.
        map_slope: of B.
        d_state: entries of h.

    Returns:
        L_A H + (L_A / lambda) G U + (L_B U + G L_u) / lambda, L_A = rate_max * step_slope.
    """
    gate_slope = rate_max * step_slope
    state = np.sqrt(d_state) * map_bound * input_bound / rate_min
    inside = (map_slope * input_bound + map_bound * input_slope) / rate_min
    return float(gate_slope * state + gate_slope / rate_min * map_bound * input_bound + inside)


def stack_bound(norms: list[np.ndarray]) -> np.ndarray:
    """Return the bound of the residual calculus on a stack's Jacobian norms (Theorem 11).

    Args:
        norms: per block, first first, ||d y_t / d x_tau||, lower triangular.

    Returns:
        Their product, last block first.
    """
    found = norms[0]
    for one in norms[1:]:
        found = one @ found
    return found


def attention_stack_envelope(lags: np.ndarray, layers: int) -> np.ndarray:
    """Return (log(1 + lag))^(L-1) / (1 + lag), attention on bounded sources.

    Args:
        lags: at least 1.
        layers: L.
    """
    lag = np.asarray(lags, float)
    return np.asarray(np.log1p(lag) ** (layers - 1) / (1 + lag))


def recurrence_stack_envelope(lags: np.ndarray, layers: int, rate: float) -> np.ndarray:
    """Return (1 + lag)^(L-1) exp(-rate lag), recurrences that forget.

    Args:
        lags: at least 1.
        layers: L.
        rate: per token.
    """
    lag = np.asarray(lags, float)
    return np.asarray((1 + lag) ** (layers - 1) * np.exp(-rate * lag))


def loop_stack_envelope(lags: np.ndarray, layers: int, beta: float) -> np.ndarray:
    """Return the sum over k <= L of lag^(k(1-beta)-1) (1 + log(1 + lag))^k, stacked loops.

    Args:
        lags: at least 1.
        layers: L.
        beta: decay exponent in (0, 1).

    Returns:
        Same shape; it vanishes with the lag if and only if L (1 - beta) < 1.
    """
    lag = np.asarray(lags, float)[..., None]
    k = np.arange(1, layers + 1)
    return np.asarray((lag ** (k * (1 - beta) - 1) * (1 + np.log1p(lag)) ** k).sum(-1))


def attention_stack_bound(layers: int, length: int) -> np.ndarray:
    """Return a bound on what L residual blocks of uniform attention pass on, from (77).

    Args:
        layers: L.
        length: tokens.

    Returns:
        (length): of every source, the sum over k of C(L, k) times the bound on k hops.
    """
    parts = [math.comb(layers, k) * harmonic_power_bound(k, length) for k in range(1, layers + 1)]
    return np.asarray(np.sum(parts, axis=0))


def recurrence_stack_constant(layers: int) -> float:
    """Return what ``recurrence_stack_envelope`` is multiplied by to bound L residual blocks.

    Each block passes exp(-rate lag), so that k hops weigh C(lag - 1, k - 1) exp(-rate lag).

    Args:
        layers: L.
    """
    return sum(math.comb(layers, k) / math.factorial(k - 1) for k in range(1, layers + 1))


def loop_stack_bound(lags: np.ndarray, layers: int, beta: float) -> np.ndarray:
    """Return a bound on L residual blocks that each pass ``loop_envelope`` (ours, constants too).

    Args:
        lags: at least 1.
        layers: L.
        beta: decay exponent in (0, 1).

    Returns:
        Same shape; of the order of ``loop_stack_envelope``.
    """
    lag = np.asarray(lags, float)
    logs = 1 + np.log1p(lag)
    parts = [
        math.comb(layers, k) * power_convolution_bound(beta, k, lag) * logs**k
        for k in range(1, layers + 1)
    ]
    return np.asarray(np.sum(parts, axis=0))


def scaffold_error_bound(dynamic: int, balanced: int, radius: float, eps: float) -> float:
    """Return the bound of J.1 on how far LayerNorm is from a linear map, on scaffolded vectors.

    Args:
        dynamic: coordinates m_0 that carry u, ||u|| <= radius.
        balanced: coordinates m_s with values of equal size, half of them negative.
        radius: R.
        eps: of LayerNorm.

    Returns:
        m_0 R / (m sqrt(eps)) + R^3 / (m eps^1.5), m = m_0 + m_s.
    """
    m = dynamic + balanced
    return float(dynamic * radius / (m * np.sqrt(eps)) + radius**3 / (m * eps**1.5))
