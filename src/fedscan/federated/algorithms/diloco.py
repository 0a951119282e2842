"""DiLoCo-style (after Douillard et al. 2024): an outer Nesterov step on the mean update."""

from fedscan.federated.algorithm import Algorithm, Message, ServerStep, State
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, add, multiply, norm, zeros_like


def diloco(*, outer_lr: float, outer_momentum: float) -> Algorithm:
    """Return the DiLoCo-style method: m = b m + d; theta += a (b m + d) (paper, G.4).

    Equals torch's SGD(lr=a, momentum=b, nesterov=True) on the gradient -d. Unlike DiLoCo, the
    local AdamW starts afresh every round, as for all methods here.

    Args:
        outer_lr: a > 0.
        outer_momentum: b in [0, 1); (1, 0) is FedAvg.

    Returns:
        The algorithm.
    """

    def init_server(params: Params) -> State:
        return {"momentum": zeros_like(params)}

    def server_update(
        params: Params, state: State, message: Message, round_index: int
    ) -> ServerStep:
        del round_index
        update = message["update"]
        momentum = add(multiply(state["momentum"], outer_momentum), update)
        step = add(multiply(momentum, outer_momentum), update)
        moved = add(params, step, outer_lr)
        return ServerStep(moved, {"momentum": momentum}, {"momentum_norm": norm(momentum)})

    return fedavg()._replace(name="diloco", init_server=init_server, server_update=server_update)
