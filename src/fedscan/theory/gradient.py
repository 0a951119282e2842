"""Theorem 4.4: a bound on the gradient of a sequence's loss in the layer's parameters."""

from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.overflow import never_nan


class GradientBound(NamedTuple):
    """The bound and what it is made of."""

    k_b: Floats  # K_B, bounds a written entry before the step
    state: Floats  # H, bounds ||h_t||_F
    k_w: Floats  # K_W, bounds the change of h_t in W within one step
    jacobian: Floats  # J, bounds ||dh_t/dW||_F
    recurrent: Floats  # part of the bound that the recurrent Jacobian carries
    bound: Floats  # G_SSM, bounds ||dL/dW||_F


@never_nan
def gradient_bound(constants: Constants, loss: Loss = CROSS_ENTROPY) -> GradientBound:
    """Return G_SSM; with envelopes it is G_{SSM,R} (138), with realised constants G_SSM^tight.

    Args:
        constants: of the layer.
        loss: regularity of the loss.

    Returns:
        The bound per point; ``recurrent / bound`` is the recurrent share.
    """
    c, x = constants, constants.input_bound
    d, n = float(c.d_input), float(c.d_state)
    k_b = c.B * x**2
    state = k_b * c.step * np.sqrt(n * d) * c.history
    transition = c.step + np.sqrt(d) * c.A * x
    memory = n * d * k_b * c.step * transition * c.rho * c.history
    k_w = memory + x**2 * np.sqrt(n) * c.step + x * np.sqrt(d) * k_b
    jacobian = k_w * c.history
    outer = loss.lipschitz * x
    recurrent = outer * c.C * memory * c.history
    return GradientBound(k_b, state, k_w, jacobian, recurrent, outer * (state + c.C * jacobian))
