"""FedProx (Li et al. 2020): a proximal term keeps local models near the broadcast model."""

from dataclasses import dataclass
from typing import Any

from fedscan.federated.algorithm import Algorithm, GradFn, LocalContext, Step
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, add, subtract
from fedscan.ranges import NonNegative

ABOUT = {
    "label": "FedProx",
    "look": {"color": "#0072B2", "linestyle": "-", "linewidth": 1.5},
    "expectation": (-1, -1),
    "local_bound": "proximal",
    "server_bound": "mean_update",
}


def fedprox(*, mu: NonNegative) -> Algorithm:
    """Return FedProx: local objective L_k + mu/2 ||theta - theta_r||^2 (paper, G.4).

    The term's gradient mu (theta - theta_r) is added in float32 after unscaling and clipped with
    the rest; under AdamW this differs from a decoupled pull.

    Args:
        mu: coefficient of mu/2 ||theta - theta_r||^2; 0 is FedAvg.

    Returns:
        The algorithm.
    """
    return fedavg()._replace(name="fedprox", local_gradient=ProximalGradient(mu))


@dataclass(frozen=True)
class ProximalGradient:
    """The local rule, named so that a compiled local phase can tell that it may stand for it."""

    mu: float

    def __call__(self, grad_fn: GradFn, params: Params, batch: Any, context: LocalContext) -> Step:
        """Return the loss, and its gradient with the proximal term's added."""
        loss, gradient = grad_fn(params, batch)
        return Step(loss, add(gradient, subtract(params, context.global_params), self.mu))
