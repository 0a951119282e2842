"""The theory of a federated synthetic run: radii, envelopes, right-hand sides, displacements."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.theory.constants import Constants, Norms, configured, realised, spectral_norms
from fedscan.theory.convergence import ConvergenceBound
from fedscan.theory.displacement import (
    diloco_step,
    fedadam_step,
    feddyn_reach,
    feddyn_step,
    fedexp_step,
    local_reach,
    scaffold_reach,
)
from fedscan.theory.fedavg import fedavg_bound
from fedscan.theory.fedprox import fedprox_bound, proximal_radius
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.smoothness import smoothness_bound


class Schedule(NamedTuple):
    """What the bounds need to know of a run."""

    algorithm: str
    hyperparameters: Mapping[str, Any]
    rounds: int
    local_steps: int
    learning_rate: float
    batch_size: int
    clients: int


class Reference(NamedTuple):
    """Radius and envelopes, fixed at the initial layer W0 (paper, Appendix G.3)."""

    schedule: Schedule
    shape: Shape
    decay: float
    norms: Norms
    G_initial: float
    radius: float  # R = eta E G_SSM(W0)

    def envelope(self, shrink: float = 0.0, widen: float = 0.0) -> Constants:
        """Return constants with M_X = ||W_X0|| + (T+1) R - shrink + widen."""
        reach = (self.schedule.rounds + 1) * self.radius - shrink + widen
        return configured(self.norms, self.decay, *self.shape, radius=reach)


def reference(params: np.ndarray, shape: Shape, rho: float, schedule: Schedule) -> Reference:
    """Fix a run's radius and envelopes.

    Args:
        params: (parameters) float64, W0.
        shape: sizes of the layer.
        rho: configured stability limit.
        schedule: of the run.

    Returns:
        The reference.
    """
    norms, decay = spectral_norms(*blocks(params, shape)), float(-np.log(rho))
    g = float(gradient_bound(configured(norms, decay, *shape)).bound)
    radius = schedule.learning_rate * schedule.local_steps * g
    return Reference(schedule, shape, decay, norms, g, radius)


def point_gradient_bounds(
    params: np.ndarray, shape: Shape, rho: float, length: int
) -> tuple[float, float]:
    """Return G_SSM and G_SSM^tight at a layer.

    Args:
        params: (parameters) float64.
        shape: sizes of the layer.
        rho: configured stability limit.
        length: stored tokens per sequence.

    Returns:
        Both bounds.
    """
    layer = blocks(params, shape)
    point = configured(spectral_norms(*layer), -np.log(rho), *shape)
    tight = realised(*layer, length=length)
    return float(gradient_bound(point).bound), float(gradient_bound(tight).bound)


class Theorem(NamedTuple):
    """A convergence theorem evaluated for a run."""

    radius_local: float
    smoothness: float
    gradient: float
    bound: ConvergenceBound


def theorem(ref: Reference, initial_loss: float, heterogeneity: float) -> Theorem | None:
    """Return the right-hand side of Theorem B.5 (FedAvg) or B.6 (FedProx); None for others.

    Args:
        ref: radius and envelopes.
        initial_loss: f(W0) on the full training set; f* is 0.
        heterogeneity: H_TV over whole sequences.

    Returns:
        The theorem's terms and conditions.
    """
    s = ref.schedule
    shared = {
        "initial_gap": np.asarray(initial_loss),
        "rounds": s.rounds,
        "local_steps": s.local_steps,
        "learning_rate": s.learning_rate,
        "batch_size": s.batch_size,
        "weights": [1 / s.clients] * s.clients,
        "heterogeneity": np.asarray(heterogeneity),
    }
    if s.algorithm == "fedavg":
        radius, constants = ref.radius, ref.envelope()
    elif s.algorithm == "fedprox":
        gradient = float(gradient_bound(ref.envelope()).bound)
        rate, steps = s.learning_rate, s.local_steps
        radius = float(proximal_radius(ref.radius, gradient, s.hyperparameters["mu"], rate, steps))
        constants = ref.envelope(shrink=ref.radius - radius)
    else:
        return None
    smoothness, gradient = smoothness_bound(constants).bound, gradient_bound(constants).bound
    shared |= {"smoothness": smoothness, "gradient": gradient}
    bound = (
        fedavg_bound(**shared)
        if s.algorithm == "fedavg"
        else fedprox_bound(**shared, mu=s.hyperparameters["mu"])
    )
    return Theorem(radius, float(smoothness), float(gradient), bound)


# Local steps that only follow the gradient, and servers that only add the mean update: R bounds
# what they do. An algorithm that is named nowhere here has no bound, rather than FedAvg's.
PLAIN_STEPS = {"fedavg", "fedadam", "fedalign", "fedexp", "diloco"}
MEAN_UPDATE = {"fedavg", "fedprox", "scaffold", "fedsam"}


def local_bound(ref: Reference, norms: Mapping[str, float]) -> float | None:
    """Return the bound on a local iterate's distance from the broadcast model (Appendix E).

    Args:
        ref: radius and envelopes.
        norms: norms measured before the round; ``client_dual``, the largest ||nu_k|| of FedDyn.

    Returns:
        R for plain local steps; the algorithm's own radius otherwise; None if none is known.
    """
    s, h = ref.schedule, ref.schedule.hyperparameters
    gradient = float(gradient_bound(ref.envelope()).bound)
    rate, steps = s.learning_rate, s.local_steps
    if s.algorithm == "fedprox":
        return float(proximal_radius(ref.radius, gradient, h["mu"], rate, steps))
    if s.algorithm == "feddyn":
        # The paper's min with R presumes iterates in the ball; the linear term may leave it.
        shift = norms.get("client_dual", 0.0)
        return float(feddyn_reach(np.inf, gradient, shift, h["alpha"], rate, steps))
    if s.algorithm == "fedsam":
        wider = float(gradient_bound(ref.envelope(widen=h["radius"])).bound)
        return float(local_reach(wider, rate, steps))
    if s.algorithm == "scaffold":
        # ||c - c_k|| of two variates of norm at most tau_c.
        gap = 2 * h["control_bound"]
        return float(scaffold_reach(gradient, h["correction_scale"], gap, rate, steps))
    return ref.radius if s.algorithm in PLAIN_STEPS else None


def server_bound(
    ref: Reference, reach: float | None, internals: Mapping[str, float]
) -> float | None:
    """Return the bound on ||W^{r+1} - W^r|| (Appendix E); the projection only shortens it.

    Args:
        ref: radius and envelopes.
        reach: bound of ``local_bound``.
        internals: what the algorithm reports about the round.

    Returns:
        The bound; None for FedAlign, whose matching moves features any distance, and where none is
        known.
    """
    s, h = ref.schedule, ref.schedule.hyperparameters
    if reach is None:
        return None
    if s.algorithm == "fedexp":
        return float(fedexp_step(internals["eta_g"], reach))
    if s.algorithm == "diloco":
        return float(diloco_step(h["outer_lr"], h["outer_momentum"], reach))
    if s.algorithm == "fedadam":
        return float(fedadam_step(h["server_lr"], h["tau"], internals["momentum_norm"]))
    if s.algorithm == "feddyn":
        return float(feddyn_step(reach, internals["dual_norm"], h["alpha"]))
    return reach if s.algorithm in MEAN_UPDATE else None
