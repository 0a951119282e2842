"""Appendix E: how far one round can move clients and server, per algorithm.

Mechanisms that shape expectations, not convergence claims.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedscan.theory.constants import Floats
from fedscan.theory.fedprox import proximal_radius
from fedscan.theory.overflow import never_nan


@never_nan
def local_reach(gradient: ArrayLike, learning_rate: float, local_steps: ArrayLike) -> Floats:
    """Return eta E G, the reach of E local steps; for FedSAM with G on the perturbed ball.

    Args:
        gradient: G_{SSM,R}; FedSAM evaluates gradients up to its radius away, so G_{R+radius}.
        learning_rate: eta.
        local_steps: E.

    Returns:
        Bound on ||W_k^{r,E} - W^r||.
    """
    return np.asarray(learning_rate * np.asarray(local_steps, float) * np.asarray(gradient, float))


@never_nan
def fedexp_step(server_lr: ArrayLike, reach: ArrayLike) -> Floats:
    """Return eta_g eta E G, the bound on FedExP's server step.

    Args:
        server_lr: extrapolation eta_g of the round.
        reach: bound of ``local_reach``.

    Returns:
        Bound on ||W^{r+1} - W^r||.
    """
    return np.asarray(np.asarray(server_lr, float) * np.asarray(reach, float))


@never_nan
def diloco_step(outer_lr: float, outer_momentum: float, reach: ArrayLike) -> Floats:
    """Return alpha_o / (1 - beta_o) eta E G, the bound on DiLoCo's server step.

    Args:
        outer_lr: alpha_o.
        outer_momentum: beta_o below 1.
        reach: bound of ``local_reach``.

    Returns:
        Bound on ||W^{r+1} - W^r||.
    """
    return np.asarray(outer_lr / (1 - outer_momentum) * np.asarray(reach, float))


@never_nan
def fedadam_step(server_lr: float, tau: float, moment_norm: ArrayLike) -> Floats:
    """Return (alpha_s / tau_s) ||m||, the bound on FedAdam's server step.

    Args:
        server_lr: alpha_s.
        tau: tau_s.
        moment_norm: norm of the first moment m^r.

    Returns:
        Bound on ||W^{r+1} - W^r||.
    """
    return np.asarray(server_lr / tau * np.asarray(moment_norm, float))


@never_nan
def feddyn_reach(
    radius: ArrayLike,
    gradient: ArrayLike,
    shift: ArrayLike,
    alpha: float,
    learning_rate: float,
    local_steps: ArrayLike,
) -> Floats:
    """Return FedDyn's local radius min{R, (G + C_nu)/alpha [1 - (1 - eta alpha)^E]}.

    Args:
        radius: R.
        gradient: G_{SSM,R}.
        shift: bound C_nu on the client's linear term.
        alpha: coefficient of the dynamic regulariser.
        learning_rate: eta.
        local_steps: E.

    Returns:
        Bound on ||W_k^{r,E} - W^r||.
    """
    pull = np.asarray(gradient, float) + np.asarray(shift, float)
    return proximal_radius(radius, pull, alpha, learning_rate, local_steps)


@never_nan
def feddyn_step(reach: ArrayLike, shift: ArrayLike, alpha: float) -> Floats:
    """Return the bound on FedDyn's server step (454): local radius plus ||nu|| / alpha.

    Args:
        reach: bound of ``feddyn_reach``.
        shift: norm of the server's linear term after the round.
        alpha: coefficient of the dynamic regulariser.

    Returns:
        Bound on ||W^{r+1} - W^r||.
    """
    return np.asarray(reach, float) + np.asarray(shift, float) / alpha


@never_nan
def scaffold_reach(
    gradient: ArrayLike,
    correction_scale: float,
    correction: ArrayLike,
    learning_rate: float,
    local_steps: ArrayLike,
) -> Floats:
    """Return eta E (G + lambda_c C_R), the reach of SCAFFOLD's corrected steps.

    Args:
        gradient: G_{SSM,R}.
        correction_scale: lambda_c.
        correction: bound C_R on ||c - c_k||, the difference of the variates.
        learning_rate: eta.
        local_steps: E.

    Returns:
        Bound on ||W_k^{r,E} - W^r||.
    """
    pull = np.asarray(gradient, float) + correction_scale * np.asarray(correction, float)
    return local_reach(pull, learning_rate, local_steps)
