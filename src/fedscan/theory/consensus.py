"""Constants of the consensus theorems, as certified bounds over a finite family of layers.

Silvestre, Rodríguez Abella and Tabuada, "The Attention Within", sections III and V. Suprema of
single transfers lambda_ij are exact; differences of them are bounded, which keeps every statement
valid. The axis that tokens agree on is called a (the paper's mu tilde).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Transfers(NamedTuple):
    """Ranges of lambda_ij over the sphere, 0 where j > i; each (tokens i, tokens j, n)."""

    low: np.ndarray
    high: np.ndarray


class Constants(NamedTuple):
    """Constants of Assumption III.1 for one axis.

    Attributes:
        gamma: certified spectral gap, min of lambda^a - lambda^mu; not positive: not certified.
        gamma_upper: Gamma, max of lambda^a - lambda^mu.
        lambda_sum: Lambda, largest sum over j < i of lambda^a_ij; 0 for one token.
        lambda_min: smallest lambda^a_ij.
        lambda_max: largest lambda^a_ij.
    """

    gamma: float
    gamma_upper: float
    lambda_sum: float
    lambda_min: float
    lambda_max: float


def step_size_range(W_delta: np.ndarray, b_delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact extremes of softplus(W z + b) over |z| = 1.

    Args:
        W_delta: (n, n); row mu is of channel mu.
        b_delta: (n).

    Returns:
        Smallest and largest, each (n).
    """
    norms = np.linalg.norm(W_delta, axis=1)
    return np.logaddexp(0, b_delta - norms), np.logaddexp(0, b_delta + norms)


def transfer_range(
    alpha: np.ndarray, W_delta: np.ndarray, b_delta: np.ndarray, tokens: int
) -> Transfers:
    """Return the exact extremes of lambda_ij (Lemma III.1).

    Args:
        alpha: decay rates, not negative, (n).
        W_delta: (n, n).
        b_delta: (n).
        tokens: l.

    Returns:
        Both attained: Delta_j and the later step sizes belong to different tokens.
    """
    smallest, largest = step_size_range(W_delta, b_delta)
    distance = np.subtract.outer(np.arange(tokens), np.arange(tokens))[..., None]
    earlier = distance >= 0
    steps = np.maximum(distance, 0)
    low = np.where(earlier, smallest * np.exp(-alpha * steps * largest), 0.0)
    high = np.where(earlier, largest * np.exp(-alpha * steps * smallest), 0.0)
    return Transfers(low, high)


def constants(family: Sequence[Transfers], axis: int) -> Constants:
    """Return the constants of Assumption III.1.

    Args:
        family: transfers of the layers that are visited.
        axis: a.

    Returns:
        Bounds that hold for every layer of the family, state and time.
    """
    tokens = family[0].low.shape[0]
    pairs = np.tril_indices(tokens)
    gaps, spans, sums, lows, highs = [], [], [0.0], [], []
    for low, high in family:
        others = [mu for mu in range(low.shape[-1]) if mu != axis]
        own_low, own_high = low[..., axis][pairs], high[..., axis][pairs]
        gaps.append((own_low[:, None] - high[pairs][:, others]).min())
        spans.append((own_high[:, None] - low[pairs][:, others]).max())
        sums += [float(high[i, :i, axis].sum()) for i in range(1, tokens)]
        lows.append(own_low.min())
        highs.append(own_high.max())
    return Constants(
        float(min(gaps)), float(max(spans)), max(sums), float(min(lows)), float(max(highs))
    )


def weight(value: np.ndarray, c: float, found: Constants) -> np.ndarray:
    """Return a_c of v = z^T S_BC z: gamma c (1 + c) v where positive, 2 (Gamma + Lambda) v else.

    Args:
        value: v, any shape.
        c: height of the cap, in (0, 1).
        found: constants.

    Returns:
        a_c, of the same shape.
    """
    positive, negative = found.gamma * c * (1 + c), 2 * (found.gamma_upper + found.lambda_sum)
    return np.where(value >= 0, positive * value, negative * value)


def smallest_definite(kernels: Sequence[np.ndarray]) -> float:
    """Return alpha of Assumption V.1: the smallest eigenvalue of the symmetric parts.

    Args:
        kernels: S_BC of the layers, (n, n) each.

    Returns:
        Positive if the assumption holds.
    """
    return min(float(np.linalg.eigvalsh((k + k.T) / 2)[0]) for k in kernels)


def c_star(kernels: Sequence[np.ndarray], axis: int) -> float | None:
    """Return how far kernels are from a multiple of the identity, relative to their definiteness.

    Args:
        kernels: S_BC of the layers, (n, n) each.
        axis: a.

    Returns:
        sup ||K - K_aa I|| / inf lambda_min(sym K), Frobenius norm; None where V.1 fails.
    """
    alpha = smallest_definite(kernels)
    if alpha <= 0:
        return None
    spread = max(float(np.linalg.norm(k - k[axis, axis] * np.eye(len(k)))) for k in kernels)
    return spread / alpha


def c_eff(star: float, found: Constants, tokens: int) -> float:
    """Return the threshold of Theorem V.1, with the factor l - 1 that its proof needs.

    Args:
        star: c_star.
        found: constants with gamma > 0.
        tokens: l.

    Returns:
        In [0, 1); 0 for one token.
    """
    others = tokens - 1
    reach = star * found.lambda_max * others
    return reach / math.hypot(found.gamma + others * found.lambda_min, reach) if others else 0.0


def c_eff_printed(star: float, found: Constants, tokens: int) -> float:
    """Return the threshold as the paper prints it: without the factor l - 1 in the numerator.

    Args:
        star: c_star.
        found: constants with gamma > 0.
        tokens: l.

    Returns:
        A value that Theorem V.1 does not hold for, see docs/consensus.md; may exceed 1 for l = 1.
    """
    others = tokens - 1
    below = math.hypot(found.gamma + others * found.lambda_min, star * found.lambda_max * others)
    return star * found.lambda_max / below


def sector_rate(c: float, star: float, found: Constants, token: int) -> float:
    """Return beta of Proposition V.1.

    Args:
        c: above c_eff.
        star: c_star.
        found: constants.
        token: i, from 0.

    Returns:
        c (gamma + i lambda_min) - c_star lambda_max i sqrt(1 - c^2), positive for c > c_eff.
    """
    gain = c * (found.gamma + token * found.lambda_min)
    return gain - star * found.lambda_max * token * math.sqrt(1 - c * c)
