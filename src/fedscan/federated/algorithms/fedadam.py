"""FedAdam (Reddi et al. 2021): Adam at the server on the mean update."""

from fedscan.federated.algorithm import Algorithm, Message, ServerStep, State
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, norm, zeros_like


def fedadam(*, server_lr: float, beta1: float, beta2: float, tau: float) -> Algorithm:
    """Return FedAdam: theta += alpha_s m/(sqrt(v) + tau_s) (paper, G.4).

    m = beta1 m + (1 - beta1) d and v = beta2 v + (1 - beta2) d^2 for the mean update d; both start
    at zero and are not bias-corrected.

    Args:
        server_lr: alpha_s.
        beta1: first-moment coefficient.
        beta2: second-moment coefficient.
        tau: offset tau_s.

    Returns:
        The algorithm.
    """

    def init_server(params: Params) -> State:
        return {"m": zeros_like(params), "v": zeros_like(params)}

    def server_update(
        params: Params, state: State, message: Message, round_index: int
    ) -> ServerStep:
        del round_index
        update = message["update"]
        m = {k: beta1 * state["m"][k] + (1 - beta1) * d for k, d in update.items()}
        v = {k: beta2 * state["v"][k] + (1 - beta2) * d * d for k, d in update.items()}
        moved = {k: t + server_lr * m[k] / (v[k].sqrt() + tau) for k, t in params.items()}
        return ServerStep(moved, {"m": m, "v": v}, {"momentum_norm": norm(m)})

    return fedavg()._replace(name="fedadam", init_server=init_server, server_update=server_update)
