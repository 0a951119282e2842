"""Lemma 4.7 (129): a Lipschitz constant of the gradient on a ball."""

from typing import NamedTuple

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import never_nan


class SmoothnessBound(NamedTuple):
    """The bound and what it is made of."""

    k_a1: Floats  # first derivative of a transition
    k_a2: Floats  # second derivative of a transition
    k_b2: Floats  # second derivative of a written entry
    k_h2: Floats  # second derivative of the state
    bound: Floats  # L_{SSM,R}


@never_nan
def smoothness_bound(constants: Constants, loss: Loss = CROSS_ENTROPY) -> SmoothnessBound:
    """Return L_{SSM,R}; with realised constants our tightened L_SSM^tight at a point (R = 0).

    The tightened constant is ours, in the spirit of the paper's G_SSM^tight: the same recursion
    for the second derivative of the state, with the realised rho, the longest columns and the
    finite history in place of the configured constants. It is valid at the point only.

    Args:
        constants: envelopes on the ball, or constants of the point.
        loss: regularity of the loss.

    Returns:
        The bound per point.
    """
    c, x = constants, constants.input_bound
    first = gradient_bound(c, loss)
    moved = c.step + c.A * x
    k_a1 = c.rho * moved
    k_a2 = c.rho * (moved**2 + 2 * x + c.A * x**2 / 4)
    k_b2 = 2 * x**3 + c.B * x**4 / 4
    k_h2 = (k_a2 * first.state + 2 * k_a1 * first.jacobian + k_b2) * c.history
    outer = loss.smoothness * x**2 * (first.state + c.C * first.jacobian) ** 2
    inner = loss.lipschitz * x * (c.C * k_h2 + 2 * first.jacobian)
    return SmoothnessBound(k_a1, k_a2, k_b2, k_h2, outer + inner)
