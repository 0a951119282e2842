"""The theory of a federated synthetic run: radii, envelopes, right-hand sides, displacements."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedscan.declared import algorithms
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

    Which holds follows from the bounds that the algorithm's file names.

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
    declared = algorithms()[s.algorithm]
    kinds = (declared.local_bound, declared.server_bound)
    if kinds == ("plain_steps", "mean_update"):
        radius, constants = ref.radius, ref.envelope()
    elif kinds == ("proximal", "mean_update"):
        radius = _proximal(ref)
        constants = ref.envelope(shrink=ref.radius - radius)
    else:
        return None
    smoothness, gradient = smoothness_bound(constants).bound, gradient_bound(constants).bound
    shared |= {"smoothness": smoothness, "gradient": gradient}
    bound = (
        fedavg_bound(**shared)
        if kinds[0] == "plain_steps"
        else fedprox_bound(**shared, mu=s.hyperparameters["mu"])
    )
    return Theorem(radius, float(smoothness), float(gradient), bound)


def local_bound(ref: Reference, norms: Mapping[str, float]) -> float | None:
    """Return the bound on a local iterate's distance from the broadcast model (Appendix E).

    Args:
        ref: radius and envelopes.
        norms: norms measured before the round; ``client_dual``, the largest ||nu_k|| of FedDyn.

    Returns:
        The bound that the algorithm's file names; None if none is known.
    """
    kind = algorithms()[ref.schedule.algorithm].local_bound
    return None if kind is None else float(LOCAL_BOUNDS[kind](ref, norms))


def server_bound(
    ref: Reference, reach: float | None, internals: Mapping[str, float]
) -> float | None:
    """Return the bound on ||W^{r+1} - W^r|| (Appendix E); the projection only shortens it.

    Args:
        ref: radius and envelopes.
        reach: bound of ``local_bound``.
        internals: what the algorithm reports about the round.

    Returns:
        The bound that the algorithm's file names; None if none is known, as for FedAlign, whose
        matching moves features any distance.
    """
    kind = algorithms()[ref.schedule.algorithm].server_bound
    if kind is None or reach is None:
        return None
    return float(SERVER_BOUNDS[kind](ref.schedule.hyperparameters, reach, internals))


def _gradient(ref: Reference, widen: float = 0.0) -> float:
    return float(gradient_bound(ref.envelope(widen=widen)).bound)


def _plain_steps(ref: Reference, _norms: Mapping[str, float]) -> float:
    """Local steps follow the gradient and nothing else."""
    return ref.radius


def _proximal(ref: Reference, _norms: Mapping[str, float] = MappingProxyType({})) -> float:
    s = ref.schedule
    mu = s.hyperparameters["mu"]
    return float(proximal_radius(ref.radius, _gradient(ref), mu, s.learning_rate, s.local_steps))


def _dynamic(ref: Reference, norms: Mapping[str, float]) -> float:
    # The paper's min with R presumes iterates in the ball; the linear term may leave it.
    s, shift = ref.schedule, norms.get("client_dual", 0.0)
    alpha = s.hyperparameters["alpha"]
    return float(feddyn_reach(np.inf, _gradient(ref), shift, alpha, s.learning_rate, s.local_steps))


def _sharpness_aware(ref: Reference, _norms: Mapping[str, float]) -> float:
    s = ref.schedule
    wider = _gradient(ref, widen=s.hyperparameters["radius"])
    return float(local_reach(wider, s.learning_rate, s.local_steps))


def _control_variates(ref: Reference, _norms: Mapping[str, float]) -> float:
    s = ref.schedule
    # ||c - c_k|| of two variates of norm at most tau_c.
    scale, gap = s.hyperparameters["correction_scale"], 2 * s.hyperparameters["control_bound"]
    return float(scaffold_reach(_gradient(ref), scale, gap, s.learning_rate, s.local_steps))


# Names that the algorithms' files may give: (reference, norms) -> bound.
LOCAL_BOUNDS: dict[str, Callable[[Reference, Mapping[str, float]], float]] = {
    "plain_steps": _plain_steps,
    "proximal": _proximal,
    "dynamic": _dynamic,
    "sharpness_aware": _sharpness_aware,
    "control_variates": _control_variates,
}
# (hyperparameters, bound of the local iterates, what the round reports) -> bound.
ServerBound = Callable[[Mapping[str, Any], float, Mapping[str, float]], Any]
SERVER_BOUNDS: dict[str, ServerBound] = {
    "mean_update": lambda _h, reach, _found: reach,
    "extrapolated": lambda _h, reach, found: fedexp_step(found["eta_g"], reach),
    "outer_momentum": lambda h, reach, _found: diloco_step(
        h["outer_lr"], h["outer_momentum"], reach
    ),
    "adaptive": lambda h, _reach, found: fedadam_step(
        h["server_lr"], h["tau"], found["momentum_norm"]
    ),
    "dual": lambda h, reach, found: feddyn_step(reach, found["dual_norm"], h["alpha"]),
}
