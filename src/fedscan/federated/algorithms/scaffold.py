"""SCAFFOLD (Karimireddy et al. 2020): control variates correct client drift."""

from typing import Any, Literal

import torch

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
from fedscan.federated.algorithms.fedavg import add_mean_update, fedavg
from fedscan.params.algebra import Params, add, multiply, norm, subtract, zeros_like
from fedscan.ranges import Count, NonNegative, Positive, Share

ABOUT = {
    "label": "SCAFFOLD",
    "look": {"color": "#D55E00", "linestyle": "-", "linewidth": 1.5},
    "expectation": (1, -1),
    "local_bound": "control_variates",
    "server_bound": "mean_update",
}


def scaffold(
    *,
    refresh_every: Count,
    correction_scale: NonNegative,
    control_lr: Share,
    control_bound: Positive,
    estimate: Literal["mean_gradient", "displacement"],
) -> Algorithm:
    """Return SCAFFOLD with bounded, damped control variates (paper, G.4).

    A local step follows g + lambda_c (c - c_k). In rounds f_c, 2 f_c, ... client k forms an
    estimate of its gradient, moves c_k towards it by eta_c and scales it to norm <= tau_c; the
    server sets c = sum_k p_k c_k. The paper prints the constants but not the estimate: it is the
    mean raw gradient over the local steps (``mean_gradient``, valid for any optimiser) or
    c_k - c + (theta_r - theta_k)/(E lr) (``displacement``, option II of Karimireddy et al., a
    gradient under plain SGD only).

    Args:
        refresh_every: rounds between refreshes f_c.
        correction_scale: scale lambda_c of the correction; 0 is FedAvg.
        control_lr: step eta_c from the old variate to the estimate.
        control_bound: largest norm tau_c of a control variate.
        estimate: 'mean_gradient': mean raw local gradient; 'displacement': c_k - c + (theta_r -
            theta_k)/(E lr), a gradient only under plain SGD.

    Returns:
        The algorithm.

    Raises:
        ValueError: for another estimate.
    """
    if estimate not in ("mean_gradient", "displacement"):
        raise ValueError(f"estimate must be 'mean_gradient' or 'displacement', got {estimate!r}")

    def zero_control(params: Params) -> State:
        return {"control": zeros_like(params)}

    def observes(round_index: int) -> bool:
        return estimate == "mean_gradient" and round_index % refresh_every == 0

    def local_gradient(grad_fn: GradFn, params: Params, batch: Any, context: LocalContext) -> Step:
        loss, gradient = grad_fn(params, batch)
        shift = subtract(context.server_state["control"], context.client_state["control"])
        observation = gradient if observes(context.round_index) else None
        return Step(loss, add(gradient, shift, correction_scale), observation)

    def client_message(result: LocalResult, context: LocalContext) -> tuple[Message, State]:
        control, server = context.client_state["control"], context.server_state["control"]
        gap = torch.tensor(norm(subtract(control, server)), dtype=torch.float64)
        message = {"update": result.update, "control_gap": {"norm": gap}}
        if context.round_index % refresh_every:
            return message, context.client_state
        fresh = result.observation
        if fresh is None:
            scale = -1.0 / (context.local_steps * context.learning_rate)
            fresh = add(subtract(control, server), result.update, scale)
        control = _bounded(add(control, subtract(fresh, control), control_lr), control_bound)
        return message | {"control": control}, {"control": control}

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        if "control" in message:
            state = {"control": message["control"]}
        step = add_mean_update(params, state, message)
        gap = float(message["control_gap"]["norm"])
        internals = {"control_norm": norm(state["control"]), "control_gap": gap}
        return step._replace(internals=internals)

    return fedavg()._replace(
        name="scaffold",
        init_server=zero_control,
        init_client=zero_control,
        local_gradient=local_gradient,
        client_message=client_message,
        server_update=server_update,
        observes=observes,
    )


def _bounded(control: Params, bound: float) -> Params:
    size = norm(control)
    return multiply(control, bound / size) if size > bound else control
