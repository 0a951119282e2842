"""DiLoCo-style (after Douillard et al. 2024): an outer Nesterov step on the mean update."""

from fedscan.federated.algorithm import Algorithm, Message, ServerStep, State
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, add, multiply, norm, zeros_like
from fedscan.ranges import Momentum, Positive

ABOUT = {
    "label": "DiLoCo-style",
    "look": {"color": "#9B870C", "linestyle": ":", "linewidth": 2.0},
    "expectation": (1, 1),
    "local_bound": "plain_steps",
    "server_bound": "outer_momentum",
}


def diloco(*, outer_lr: Positive, outer_momentum: Momentum) -> Algorithm:
    """Return the DiLoCo-style method: m = b m + d; theta += a (b m + d) (paper, G.4).

    Equals torch's SGD(lr=a, momentum=b, nesterov=True) on the gradient -d. Unlike DiLoCo, the
    local AdamW starts afresh every round, as for all methods here.

    Args:
        outer_lr: outer learning rate a.
        outer_momentum: outer momentum b; (1, 0) is FedAvg.

    Returns:
        The algorithm.
    """

    def init_server(params: Params) -> State:
        return {"momentum": zeros_like(params)}

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        update = message["update"]
        momentum = add(multiply(state["momentum"], outer_momentum), update)
        step = add(multiply(momentum, outer_momentum), update)
        moved = add(params, step, outer_lr)
        return ServerStep(moved, {"momentum": momentum}, {"momentum_norm": norm(momentum)})

    return fedavg()._replace(name="diloco", init_server=init_server, server_update=server_update)
