"""FedAvg (McMahan et al. 2017): the server averages the clients' models."""

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
from fedscan.params.algebra import Params, add

ABOUT = {
    "label": "FedAvg",
    "look": {"color": "#000000", "linestyle": "-", "linewidth": 2.0},
    "expectation": None,
    "local_bound": "plain_steps",
    "server_bound": "mean_update",
}


def fedavg() -> Algorithm:
    """Return FedAvg: theta_{r+1} = theta_r + sum_k p_k (theta_k - theta_r) (paper, G.4).

    Returns:
        The algorithm all others are compared with, and derived from.
    """
    return Algorithm("fedavg", no_state, no_state, plain_gradient, send_update, add_mean_update)


def no_state(_params: Params) -> State:
    """Return an empty state."""
    return {}


def plain_gradient(grad_fn: GradFn, params: Params, batch: Any, _context: LocalContext) -> Step:
    """Return the gradient of the client's loss.

    Args:
        grad_fn: gradient of the loss.
        params: the iterate.
        batch: one batch.

    Returns:
        Loss and gradient.
    """
    return Step(*grad_fn(params, batch))


def send_update(result: LocalResult, context: LocalContext) -> tuple[Message, State]:
    """Send local minus global parameters; keep the state.

    Args:
        result: the local phase.
        context: what the client received.

    Returns:
        Message with ``"update"``, and the unchanged client state.
    """
    return {"update": result.update}, context.client_state


def add_mean_update(params: Params, state: State, message: Message) -> ServerStep:
    """Add the mean update to the global parameters.

    Args:
        params: global parameters.
        state: server state, unchanged.
        message: mean message.

    Returns:
        The averaged model.
    """
    return ServerStep(add(params, message["update"]), state, {})
