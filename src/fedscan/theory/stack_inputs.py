"""Certified input bounds and step margins of the layers of a stack (Appendix C)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedscan.theory.constants import Constants, Floats, Norms, configured
from fedscan.theory.gradient import gradient_bound


def stack_constants(
    norms: Sequence[Norms],
    row_norms: Sequence[ArrayLike],
    gammas: Sequence[ArrayLike],
    first_decay: ArrayLike,
    d_input: int,
    d_state: int,
    radii: Sequence[ArrayLike] | None = None,
) -> list[Constants]:
    """Return the constants of every layer of a stack with one-hot inputs.

    Layer q+1 reads layer q's outputs, so its inputs are bounded by M_C L_{x,q} H_q (from
    |y| <= ||h||_F |C|), and its steps from below by softplus(-M L_{x,q+1}) with M the largest row
    norm of W_delta. With radii, all of this holds on the product of the balls.

    Args:
        norms: per layer, of the parameters or of the balls' centres.
        row_norms: per layer, largest row norm of W_delta, the norm from 2 to infinity.
        gammas: per layer, margin of A; on a ball, its smallest value there.
        first_decay: gamma times delta of the first layer, whose inputs are one-hot.
        d_input: D.
        d_state: N.
        radii: R_q of the balls; none means the point itself.

    Returns:
        Constants per layer; decay underflows to 0 and history to infinity where the certificate
        is vacuous.
    """
    bound: Floats = np.asarray(1.0)
    decay: Floats = np.asarray(first_decay, float)
    balls = radii or [0.0] * len(norms)
    found = []
    for q, (norm, radius) in enumerate(zip(norms, balls, strict=True)):
        if q:
            reach = (np.asarray(row_norms[q], float) + np.asarray(radius, float)) * bound
            with np.errstate(under="ignore", over="ignore"):
                decay = np.asarray(gammas[q], float) * np.logaddexp(0.0, -reach)
        layer = configured(norm, decay, d_input, d_state, bound, radius)
        found.append(layer)
        with np.errstate(over="ignore"):
            bound = layer.C * bound * gradient_bound(layer).state
    return found
