"""Theorem C.3: a bound on the gradient of a stack of layers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.theory.constants import CROSS_ENTROPY, Constants, Floats, Loss
from fedscan.theory.gradient import GradientBound, gradient_bound
from fedscan.theory.overflow import never_nan


class Sensitivity(NamedTuple):
    """How a layer passes on a change of its inputs."""

    step: Floats  # Lambda, change of the state within one step
    output: Floats  # kappa, bounds sum_j ||dy_t/dx_j||_2


class StackGradient(NamedTuple):
    """The bound and what it is made of, per layer."""

    kappa: list[Floats]
    contributions: list[Floats]  # L_x (H + M_C J) of the layer times the kappas above it
    bound: Floats  # G^(Q)


@never_nan
def sensitivity(constants: Constants, layer: GradientBound) -> Sensitivity:
    """Return Lambda and kappa of a layer (303).

    Args:
        constants: of the layer.
        layer: its gradient bound.

    Returns:
        Both per point.
    """
    c, x = constants, constants.input_bound
    step = c.rho * c.A * c.delta * layer.state + c.B * x * (2 * c.step + x * c.delta)
    return Sensitivity(step, c.C * (layer.state + x * step * c.history))


@never_nan
def stack_gradient_bound(layers: Sequence[Constants], loss: Loss = CROSS_ENTROPY) -> StackGradient:
    """Return G^(Q), the bound on the gradient in all layers' parameters together.

    Args:
        layers: constants from the first layer to the last.
        loss: regularity of the loss.

    Returns:
        The bound per point.
    """
    bounds = [gradient_bound(layer, loss) for layer in layers]
    kappa = [sensitivity(c, b).output for c, b in zip(layers, bounds, strict=True)]
    above: Floats = np.asarray(1.0)
    contributions = []
    for c, b, k in zip(reversed(layers), reversed(bounds), reversed(kappa), strict=True):
        contributions.append(c.input_bound * (b.state + c.C * b.jacobian) * above)
        above = above * k
    squares = sum(np.square(part) for part in contributions)
    return StackGradient(kappa, contributions[::-1], np.asarray(loss.lipschitz * np.sqrt(squares)))
