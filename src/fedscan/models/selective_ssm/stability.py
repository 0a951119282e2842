"""Stability of a layer with one-hot inputs: margins, certificate, projection (paper, Def. 4.1)."""

from typing import NamedTuple

import numpy as np

from fedscan.models.selective_ssm.layout import Blocks

# Safety margin of the projection (paper, Appendix G.2).
EPSILON = 1e-4


class Margins(NamedTuple):
    """gamma bounds -A from below, delta every step of the state; rho = exp(-gamma delta)."""

    gamma: float
    delta: float

    @property
    def rho(self) -> float:
        """Bound on every transition."""
        return float(np.exp(-self.gamma * self.delta))


class Certificate(NamedTuple):
    """Realised margins of a layer over all one-hot inputs, and whether it is in S_{gamma,delta}."""

    gamma_hat: float
    delta_hat: float
    rho_hat: float
    stable: bool


def softplus(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(x)) without overflow.

    Args:
        x: any shape.

    Returns:
        The same shape and dtype.
    """
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def inverse_softplus(y: float) -> float:
    """Return the x with softplus(x) = y.

    Args:
        y: positive.

    Returns:
        log(exp(y) - 1), accurate for small y.

    Raises:
        ValueError: if y is not positive.
    """
    if not y > 0:
        raise ValueError(f"softplus is positive; there is no x with softplus(x) = {y}")
    return float(y + np.log(-np.expm1(-y)))


def certify(layer: Blocks, margins: Margins) -> Certificate:
    """Check membership in S_{gamma,delta} over every one-hot input, in float64.

    Input u selects column u of W_delta, so the steps over all inputs are softplus(W_delta).

    Args:
        layer: blocks without batch axes, any float dtype.
        margins: configured gamma and delta.

    Returns:
        The realised margins; ``stable`` is False if a parameter is not finite.
    """
    steps = softplus(np.asarray(layer.W_delta, np.float64))
    gamma_hat = float(np.min(-np.asarray(layer.A, np.float64)))
    delta_hat = float(np.min(steps))
    rho_hat = float(np.exp(-gamma_hat * delta_hat))
    finite = all(bool(np.isfinite(block).all()) for block in layer)
    stable = finite and gamma_hat >= margins.gamma and delta_hat >= margins.delta and rho_hat < 1
    return Certificate(gamma_hat, delta_hat, rho_hat, stable)


def limits(
    margins: Margins, dtype: type[np.floating] | np.dtype
) -> tuple[np.floating, np.floating]:
    """Return the largest A and the smallest W_delta of S_{gamma+eps,delta+eps}.

    Args:
        margins: configured gamma and delta.
        dtype: of the parameters; rounding to it moves a limit by far less than ``EPSILON``.

    Returns:
        (largest A, smallest entry of W_delta).
    """
    kind = np.dtype(dtype).type
    smallest = inverse_softplus(margins.delta + EPSILON)
    return kind(-(margins.gamma + EPSILON)), kind(smallest)


def project(layer: Blocks, margins: Margins) -> Blocks:
    """Return the nearest layer in S_{gamma+eps,delta+eps}: entries are clamped.

    Args:
        layer: blocks, batch axes allowed.
        margins: configured gamma and delta.

    Returns:
        New A and W_delta, the same W_B and W_C.
    """
    largest, smallest = limits(margins, layer.A.dtype)
    return layer._replace(
        A=np.minimum(layer.A, largest), W_delta=np.maximum(layer.W_delta, smallest)
    )
