"""The round loop, the same for every algorithm and problem.

The engine is a generator: it yields after each round, and the caller writes tables and checkpoints
in between. Resuming is passing the yielded state back in.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch

from fedscan.federated.algorithm import Algorithm, LocalContext, Message, State
from fedscan.federated.local_phase import Diverged, LocalOutcome, local_phase
from fedscan.federated.problem import Problem
from fedscan.params.algebra import Params, all_finite, weighted_mean

LocalPhase = Callable[[Problem, Algorithm, LocalContext, int], LocalOutcome]


class RunState(NamedTuple):
    """Everything a run carries from one round to the next."""

    round_index: int  # rounds completed
    params: Params
    server: State
    clients: tuple[State, ...]


class RoundResult(NamedTuple):
    """One completed round.

    ``updates`` are local minus global parameters, whatever the algorithm sent, and
    ``mean_update`` is their weighted mean.
    """

    state: RunState
    previous: Params
    updates: tuple[Params, ...]
    mean_update: Params
    outcomes: tuple[LocalOutcome, ...]
    val_loss: float
    internals: Mapping[str, float]


def initial_state(problem: Problem, algorithm: Algorithm) -> RunState:
    """Return the state before the first round.

    Args:
        problem: model and data.
        algorithm: states of server and clients.

    Returns:
        Round 0 with the problem's initial model.
    """
    params = problem.initial_params()
    clients = tuple(algorithm.init_client(params) for _ in problem.weights)
    return RunState(0, params, algorithm.init_server(params), clients)


def run(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    state: RunState,
    phase: LocalPhase = local_phase,
) -> Iterator[RoundResult]:
    """Run rounds until ``rounds`` are completed.

    Args:
        problem: model, data and local optimiser.
        algorithm: what clients and server do.
        rounds: rounds T in total, those before ``state`` included.
        state: where to start; ``initial_state`` or the state of an earlier result.
        phase: runs a client's local phase; a problem with a compiled one passes it here.

    Yields:
        One result per round.

    Raises:
        Diverged: as soon as a loss, a gradient, the model or its validation loss is not finite.
    """
    while state.round_index < rounds:
        result = _round(problem, algorithm, state, phase)
        yield result
        state = result.state


class _Returned(NamedTuple):
    """What one client sends and keeps."""

    outcome: LocalOutcome
    message: Message
    state: State


@torch.no_grad()
def _round(
    problem: Problem, algorithm: Algorithm, state: RunState, phase: LocalPhase
) -> RoundResult:
    round_index = state.round_index + 1
    returned = [
        _client(problem, algorithm, state, phase, client) for client in range(len(state.clients))
    ]
    weights = problem.weights
    message = {
        entry: weighted_mean([r.message[entry] for r in returned], weights)
        for entry in returned[0].message
    }
    updates = tuple(r.outcome.result.update for r in returned)
    # Most methods send the update itself: its mean is then known already.
    sent = all(r.message["update"] is r.outcome.result.update for r in returned)
    mean_update = message["update"] if sent else weighted_mean(updates, weights)
    step = algorithm.server_update(state.params, state.server, message)
    if not all_finite(step.params):
        raise Diverged("non-finite global parameters", round_index, None)
    val_loss = problem.evaluate(step.params)
    if not val_loss < float("inf"):
        raise Diverged("non-finite validation loss", round_index, None)
    return RoundResult(
        RunState(round_index, step.params, step.state, tuple(r.state for r in returned)),
        state.params,
        updates,
        mean_update,
        tuple(r.outcome for r in returned),
        val_loss,
        step.internals,
    )


def _client(
    problem: Problem, algorithm: Algorithm, state: RunState, phase: LocalPhase, client: int
) -> _Returned:
    context = LocalContext(
        state.params,
        state.server,
        state.clients[client],
        state.round_index + 1,
        problem.local_steps,
        problem.learning_rate,
    )
    outcome = phase(problem, algorithm, context, client)
    return _Returned(outcome, *algorithm.client_message(outcome.result, context))
