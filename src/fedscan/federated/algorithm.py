"""What a federated algorithm is: a record of pure functions made by a factory.

A factory's keyword arguments are its hyperparameters; their annotations (``fedscan.ranges``) and
what the docstring says of them become the configuration. Beside it, ``ABOUT`` says what people read
of the method, see ``fedscan.declared``. An algorithm states only what differs from
FedAvg (``fedavg()._replace(...)``). State goes in and comes out; no function changes an argument.

Sign convention (paper): ``update = local - global``, and the server adds. Weights p_k sum to one,
and a mean message is the weighted sum of the clients' messages, entry by entry.

Example: a method that only shortens the server's step ::

    def half_step() -> Algorithm:
        def server_update(params, state, message):
            return ServerStep(add(params, message["update"], 0.5), state, {})

        return fedavg()._replace(name="half_step", server_update=server_update)
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from fedscan.params.algebra import Params

State = dict[str, Params]
Message = dict[str, Params]
# A gradient of the client's loss: (params, batch) -> (loss, gradient), unclipped, in float32.
GradFn = Callable[[Params, Any], tuple[Tensor, Params]]


class LocalContext(NamedTuple):
    """What a client knows during one round besides its data."""

    global_params: Params
    server_state: State
    client_state: State
    round_index: int  # from 1
    local_steps: int
    learning_rate: float


class Step(NamedTuple):
    """One local step before clipping: loss at the iterate, direction, what to average over E."""

    loss: Tensor
    direction: Params
    observation: Params | None = None


class LocalResult(NamedTuple):
    """A finished local phase: iterate, iterate minus global, mean of the steps' observations."""

    params: Params
    update: Params
    observation: Params | None


class ServerStep(NamedTuple):
    """New global parameters and server state, and quantities worth logging every round."""

    params: Params
    state: State
    internals: Mapping[str, float]


def never(_round_index: int) -> bool:
    """Observe no step."""
    return False


class Algorithm(NamedTuple):
    """A federated algorithm.

    Attributes:
        name: registry name.
        init_server: global parameters -> server state before the first round.
        init_client: global parameters -> state of a client before the first round.
        local_gradient: (gradient function, iterate, batch, context) -> step.
        client_message: (local result, context) -> message with an entry ``"update"``, and the
            client's next state.
        server_update: (global parameters, server state, mean message) -> server step.
        observes: round -> whether its steps are observed. A recorded step is kept per answer, so
            ``local_gradient`` may depend on the round through this alone.
        full_precision: the local phase needs exact gradients and runs without autocast.
    """

    name: str
    init_server: Callable[[Params], State]
    init_client: Callable[[Params], State]
    local_gradient: Callable[[GradFn, Params, Any, LocalContext], Step]
    client_message: Callable[[LocalResult, LocalContext], tuple[Message, State]]
    server_update: Callable[[Params, State, Message], ServerStep]
    observes: Callable[[int], bool] = never
    full_precision: bool = False
