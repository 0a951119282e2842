"""FedAdam (Reddi et al. 2021): Adam at the server on the mean update."""

from fedscan.federated.algorithm import Algorithm, Message, ServerStep, State
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, norm, zeros_like
from fedscan.ranges import Momentum, Positive

ABOUT = {
    "label": "FedAdam",
    "look": {"color": "#CC79A7", "linestyle": "-", "linewidth": 1.5},
    "expectation": (1, 1),
    "local_bound": "plain_steps",
    "server_bound": "adaptive",
}


def fedadam(*, server_lr: Positive, beta1: Momentum, beta2: Momentum, tau: Positive) -> Algorithm:
    """Return FedAdam: theta += alpha_s m/(sqrt(v) + tau_s) (paper, G.4).

    m = beta1 m + (1 - beta1) d and v = beta2 v + (1 - beta2) d^2 for the mean update d; both start
    at zero and are not bias-corrected.

    Args:
        server_lr: server learning rate alpha_s.
        beta1: first-moment coefficient.
        beta2: second-moment coefficient.
        tau: offset tau_s added to sqrt(v).

    Returns:
        The algorithm.
    """

    def init_server(params: Params) -> State:
        return {"m": zeros_like(params), "v": zeros_like(params)}

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        update = message["update"]
        m = {k: beta1 * state["m"][k] + (1 - beta1) * d for k, d in update.items()}
        v = {k: beta2 * state["v"][k] + (1 - beta2) * d * d for k, d in update.items()}
        moved = {k: t + server_lr * m[k] / (v[k].sqrt() + tau) for k, t in params.items()}
        return ServerStep(moved, {"m": m, "v": v}, {"momentum_norm": norm(m)})

    return fedavg()._replace(name="fedadam", init_server=init_server, server_update=server_update)
