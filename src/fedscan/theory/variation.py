"""Lemma B.1 (69-87): how fast the gradient bound itself changes on a ball."""

import numpy as np

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import never_nan


@never_nan
def bound_variation(constants: Constants, loss: Loss = CROSS_ENTROPY) -> Floats:
    """Return L_{G,R}, a Lipschitz constant of G_SSM on the ball.

    Args:
        constants: envelopes on the ball.
        loss: regularity of the loss.

    Returns:
        The constant per point.
    """
    c, x = constants, constants.input_bound
    d, n = float(c.d_input), float(c.d_state)
    ball = gradient_bound(c, loss)
    p1, variation_p1 = ball.k_b * c.step, ball.k_b * x + c.step * x**2
    p2, variation_p2 = c.step + np.sqrt(d) * c.A * x, x + np.sqrt(d) * x
    variation_p3 = p1 * variation_p2 + p2 * variation_p1
    variation_k_w = n * d * c.rho * c.history * variation_p3 + x**3 * (np.sqrt(n) + np.sqrt(d))
    variation_p4 = c.C * variation_k_w + ball.k_w
    inner = np.sqrt(n * d) * c.history * variation_p1 + variation_p4 * c.history
    return np.asarray(loss.lipschitz * x * inner)
