"""What the bounds know of a layer: norms, memory, sizes; configured or realised."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Loss(NamedTuple):
    """Regularity of the loss of one position in its logits."""

    lipschitz: float  # L_l
    smoothness: float  # H_l


# Softmax cross-entropy (spec of the paper's experiments, Section 5).
CROSS_ENTROPY = Loss(float(np.sqrt(2.0)), 0.5)


class Norms(NamedTuple):
    """Spectral norms of W_delta, W_B, W_C and the Euclidean norm of A; arrays over points."""

    delta: Floats
    B: Floats
    C: Floats
    A: Floats


class Constants(NamedTuple):
    """Everything a single-layer bound is made of; arrays over points broadcast.

    Attributes:
        delta: norm M_delta of W_delta.
        step: bound K_delta on a step's norm ||softplus(W_delta x)||.
        B: norm M_B of W_B, on admissible inputs.
        C: norm M_C of W_C, on admissible inputs.
        A: Euclidean norm M_A of A.
        rho: bound on every transition.
        history: sum of the powers of rho over the past, 1/(1 - rho) if the past is unlimited.
        d_input: D.
        d_state: N.
        input_bound: bound L_x on an input's norm.
    """

    delta: Floats
    step: Floats
    B: Floats
    C: Floats
    A: Floats
    rho: Floats
    history: Floats
    d_input: int
    d_state: int
    input_bound: Floats


def spectral_norms(
    W_delta: ArrayLike,
    W_B: ArrayLike,
    W_C: ArrayLike,
    A: ArrayLike,
) -> Norms:
    """Return the norms of the four blocks.

    Args:
        W_delta: (..., D, D).
        W_B: (..., N, D).
        W_C: (..., N, D).
        A: (..., N).

    Returns:
        Norms with the leading axes.
    """
    delta, b, c = (
        np.asarray(np.linalg.norm(np.asarray(x, float), 2, axis=(-2, -1)))
        for x in (W_delta, W_B, W_C)
    )
    return Norms(delta, b, c, np.asarray(np.linalg.norm(np.asarray(A, float), axis=-1)))


def configured(
    norms: Norms,
    decay: ArrayLike,
    d_input: int,
    d_state: int,
    input_bound: ArrayLike = 1.0,
    radius: ArrayLike = 0.0,
) -> Constants:
    """Return the constants of Theorem 4.4, or their envelopes on a ball (57-60, 65-66).

    Args:
        norms: of the parameters, or of the ball's centre.
        decay: gamma times delta, which is -log(rho); precise where rho is close to 1.
        d_input: D.
        d_state: N.
        input_bound: L_x.
        radius: R of the ball.

    Returns:
        Constants; history is infinite if decay is 0.

    Raises:
        ValueError: if decay, input bound or radius is negative.
    """
    names = ("decay", "input_bound", "radius")
    values = tuple(np.asarray(value, float) for value in (decay, input_bound, radius))
    for name, value in zip(names, values, strict=True):
        if np.any(value < 0):
            raise ValueError(f"{name} must not be negative, found {float(np.min(value))}")
    rate, bound, enlarged = values
    delta, b, c, a = (np.asarray(norm, float) + enlarged for norm in norms)
    step = delta * bound + np.sqrt(d_input) * np.log(2.0)
    with np.errstate(divide="ignore"):
        history = 1.0 / -np.expm1(-rate)
    return Constants(delta, step, b, c, a, np.exp(-rate), history, d_input, d_state, bound)


def realised(
    W_delta: ArrayLike,
    W_B: ArrayLike,
    W_C: ArrayLike,
    A: ArrayLike,
    length: int,
) -> Constants:
    """Return the tightened constants of Appendix G.3, for one-hot inputs and stored length S.

    The realised margins give rho; the longest columns replace norms, since an input selects a
    column; the past has at most S - 1 terms.

    Args:
        W_delta: (..., D, D).
        W_B: (..., N, D).
        W_C: (..., N, D).
        A: (..., N), negative.
        length: stored tokens S of a sequence.

    Returns:
        Constants with L_x = 1.
    """
    w, b, c, a = (np.asarray(x, float) for x in (W_delta, W_B, W_C, A))
    steps = np.logaddexp(0.0, w)
    rate = np.min(-a, axis=-1) * np.min(steps, axis=(-2, -1))
    if np.any(rate < 0):
        raise ValueError("A must be negative: a layer that grows has no realised rho below 1")
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.expm1(-(length - 1) * rate) / np.expm1(-rate)
    history = np.where(rate == 0, length - 1.0, sums)

    def longest(matrix: Floats) -> Floats:
        return np.asarray(np.max(np.linalg.norm(matrix, axis=-2), axis=-1))

    return Constants(
        longest(w),
        longest(steps),
        longest(b),
        longest(c),
        np.asarray(np.linalg.norm(a, axis=-1)),
        np.exp(-rate),
        history,
        w.shape[-1],
        a.shape[-1],
        np.asarray(1.0),
    )
