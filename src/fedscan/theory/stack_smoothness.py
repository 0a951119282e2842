"""Lemma C.4: a Lipschitz constant of the gradient of a stack on a product of balls."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import never_nan
from fedscan.theory.stack_gradient import sensitivity


class StackSmoothness(NamedTuple):
    """First and second derivatives of the layers' outputs, and the bounds."""

    theta: list[Floats]  # bounds the first derivative of layer q's output
    omega: list[Floats]  # bounds its second derivative
    gradient: Floats  # G^(Q)_R
    bound: Floats  # L^(Q)


@never_nan
def stack_smoothness_bound(
    layers: Sequence[Constants], loss: Loss = CROSS_ENTROPY
) -> StackSmoothness:
    """Return L^(Q) and G^(Q)_R.

    Args:
        layers: envelopes on the balls, from the first layer to the last.
        loss: regularity of the loss.

    Returns:
        The bounds per point; with one layer they are those of Lemma 4.7.
    """
    theta: Floats = np.asarray(0.0)
    omega: Floats = np.asarray(0.0)
    thetas, omegas = [], []
    for layer in layers:
        theta, omega = _layer(layer, theta, omega)
        thetas.append(theta)
        omegas.append(omega)
    bound = loss.smoothness * np.square(theta) + loss.lipschitz * omega
    return StackSmoothness(thetas, omegas, np.asarray(loss.lipschitz * theta), np.asarray(bound))


def _layer(layer: Constants, below: Floats, omega_below: Floats) -> tuple[Floats, Floats]:
    """Return Theta_q and Omega_q from those of the layer below."""
    x, own = layer.input_bound, gradient_bound(layer)
    passed = sensitivity(layer, own)
    u = x + layer.delta * below
    c = layer.step + layer.A * u
    j = own.jacobian + passed.step * below * layer.history
    first = x * (own.state + layer.C * own.jacobian)
    theta = np.sqrt(np.square(first) + np.square(passed.output * below))
    bend = u**2 / 4 + 2 * below
    e = (
        layer.rho * own.state * (c**2 + 2 * u + layer.A * bend)
        + 2 * layer.rho * c * j
        + 2 * below * layer.step * x
        + 2 * (x + layer.B * below) * (x * u + layer.step * below)
        + layer.B * x * (x * bend + 2 * u * below)
    )
    omega = (
        layer.C * x * e * layer.history
        + 2 * (x + layer.C * below) * j
        + 2 * own.state * below
        + passed.output * omega_below
    )
    return np.asarray(theta), np.asarray(omega)
