"""FedDyn (Acar et al. 2021): dynamic regularisation aligns local and global optima."""

from typing import Any

from fedscan.federated.algorithm import (
    Algorithm,
    GradFn,
    LocalContext,
    LocalResult,
    Message,
    ServerStep,
    State,
    Step,
)
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, add, norm, subtract, zeros_like
from fedscan.ranges import Positive

ABOUT = {
    "label": "FedDyn",
    "look": {"color": "#009E73", "linestyle": "-", "linewidth": 1.5},
    "expectation": (-1, -1),
    "local_bound": "dynamic",
    "server_bound": "dual",
}


def feddyn(*, alpha: Positive) -> Algorithm:
    """Return FedDyn: local objective L_k - <nu_k, theta> + alpha/2 ||theta - theta_r||^2 (G.4).

    After the local phase nu_k <- nu_k - alpha update_k; the server keeps nu <- nu - alpha mean
    update, the mean of the nu_k, and sets theta = mean model - nu/alpha. Both terms' gradients are
    added in float32 after unscaling and clipped with the rest.

    Args:
        alpha: coefficient of the dynamic regulariser.

    Returns:
        The algorithm.
    """

    def zero_dual(params: Params) -> State:
        return {"dual": zeros_like(params)}

    def local_gradient(grad_fn: GradFn, params: Params, batch: Any, context: LocalContext) -> Step:
        loss, gradient = grad_fn(params, batch)
        pulled = add(gradient, subtract(params, context.global_params), alpha)
        return Step(loss, subtract(pulled, context.client_state["dual"]))

    def client_message(result: LocalResult, context: LocalContext) -> tuple[Message, State]:
        dual = add(context.client_state["dual"], result.update, -alpha)
        return {"update": result.update}, {"dual": dual}

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        dual = add(state["dual"], message["update"], -alpha)
        moved = add(add(params, message["update"]), dual, -1.0 / alpha)
        return ServerStep(moved, {"dual": dual}, {"dual_norm": norm(dual)})

    return fedavg()._replace(
        name="feddyn",
        init_server=zero_dual,
        init_client=zero_dual,
        local_gradient=local_gradient,
        client_message=client_message,
        server_update=server_update,
    )
