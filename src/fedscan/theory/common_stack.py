"""Corollaries D.2 and D.4: stacks whose layers share all constants, in closed form."""

from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import never_nan
from fedscan.theory.stack_gradient import sensitivity


class CommonStack(NamedTuple):
    """Bounds of a stack of equal layers."""

    gradient: Floats  # G-hat_Q
    smoothness: Floats  # L-hat_Q, not below L^(Q) of equal layers


@never_nan
def common_stack_bound(layer: Constants, depth: int, loss: Loss = CROSS_ENTROPY) -> CommonStack:
    """Return G-hat_Q (D.2) and L-hat_Q (D.4).

    Args:
        layer: constants that bound every layer.
        depth: layers Q.
        loss: regularity of the loss.

    Returns:
        The bounds per point; G-hat equals G^(Q) of equal layers, L-hat is a looser closed form.
    """
    x, own = layer.input_bound, gradient_bound(layer)
    passed = sensitivity(layer, own)
    kappa = passed.output
    squares = [kappa ** (2 * q) for q in range(depth)]
    first = np.square(x * (own.state + layer.C * own.jacobian))
    d = x + layer.delta
    bend = d**2 / 4 + 2
    c = layer.step + layer.A * d
    j = own.jacobian + passed.step * layer.history
    e = (
        layer.rho * own.state * (c**2 + 2 * d + layer.A * bend)
        + 2 * layer.rho * c * j
        + 2 * layer.step * x
        + 2 * (x + layer.B) * (x * d + layer.step)
        + layer.B * x * (x * bend + 2 * d)
    )
    b = layer.C * x * e * layer.history + 2 * (x + layer.C) * j + 2 * own.state
    chained = sum(kappa ** (depth - q) * sum(squares[:q]) for q in range(1, depth + 1))
    bent = b * (sum(kappa**q for q in range(depth)) + first * chained)
    smoothness = loss.smoothness * first * sum(squares) + loss.lipschitz * bent
    gradient = loss.lipschitz * np.sqrt(first * sum(squares))
    return CommonStack(np.asarray(gradient), np.asarray(smoothness))
