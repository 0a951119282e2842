"""FedExP (Jhunjhunwala et al. 2023): the server extrapolates when clients disagree."""

import torch

from fedscan.federated.algorithm import (
    Algorithm,
    LocalContext,
    LocalResult,
    Message,
    ServerStep,
    State,
)
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, add, norm
from fedscan.ranges import Positive

ABOUT = {
    "label": "FedExP",
    "look": {"color": "#E69F00", "linestyle": "-.", "linewidth": 1.5},
    "expectation": (0, 1),
    "local_bound": "plain_steps",
    "server_bound": "extrapolated",
}


def fedexp(*, epsilon: Positive) -> Algorithm:
    """Return FedExP: theta += eta_g mean update (paper, G.4).

    eta_g = max{1, sum_k p_k ||update_k||^2 / (2 ||mean update||^2 + epsilon)}, one factor for all
    parameters, without an upper cap; the model that is evaluated is the last iterate, not an
    average of the last two.

    Args:
        epsilon: epsilon_g in the denominator of eta_g.

    Returns:
        The algorithm; it logs eta_g.
    """

    def client_message(result: LocalResult, context: LocalContext) -> tuple[Message, State]:
        square = torch.tensor(norm(result.update) ** 2, dtype=torch.float64)
        return {"update": result.update, "squared_norm": {"sum": square}}, context.client_state

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        mean_square = float(message["squared_norm"]["sum"])
        step_size = max(1.0, mean_square / (2 * norm(message["update"]) ** 2 + epsilon))
        moved = add(params, message["update"], step_size)
        return ServerStep(moved, state, {"eta_g": step_size})

    return fedavg()._replace(
        name="fedexp", client_message=client_message, server_update=server_update
    )
