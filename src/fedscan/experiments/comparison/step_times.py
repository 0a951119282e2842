"""How long a local step and an evaluation take here, measured with the code that trains."""

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.comparison.rows import Record
from fedscan.experiments.comparison.training import PHASES
from fedscan.federated import engine
from fedscan.federated.algorithm import Algorithm
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.build import build
from fedscan.federated.problem import Problem
from fedscan.models.architecture import Architecture
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.problems.language_model import LanguageModelProblem, Schedule
from fedscan.problems.quadratic import QuadraticProblem
from fedscan.seeds import derive

STEPS = 2


class StepTimes(NamedTuple):
    """Seconds of one model on this machine."""

    step: float  # a local step of FedAvg
    evaluated_sequence: float  # one validation sequence
    client_round: float  # per client and round: update, norms, records
    parameters: int


def measure(
    training: Mapping[str, Any],
    model: Mapping[str, Any],
    sequence_length: int,
    backbone: str,
    depth: int,
) -> StepTimes:
    """Time one model on random tokens.

    Args:
        training: section ``training``.
        model: section ``model``.
        sequence_length: tokens per sequence.
        backbone: layer layout.
        depth: mixer layers.

    Returns:
        The better of two timed repetitions after one that warms up.

    Raises:
        ValueError: if the device is not there.
    """
    require_device(training["device"], "training")
    torch.set_num_threads(training["threads"])
    keep_freed_memory()
    kinds = BACKBONES[backbone](depth)
    shape = Architecture(mixers=kinds, **model)
    random = np.random.default_rng(derive(0, "step times"))
    size = (training["eval_batch_size"], sequence_length)
    tokens = random.integers(0, model["vocab_size"], size).astype(np.uint16)
    chosen = {k: training[k] for k in Schedule._fields if k in training}
    problem = LanguageModelProblem(
        initialise(shape, 0),
        [tokens],
        tokens,
        Schedule(local_steps=STEPS, **chosen),
        0,
        training["precision"],
        training["device"],
        training["kernels"],
    )
    algorithm = ALGORITHMS["fedavg"]()
    state = engine.initial_state(problem, algorithm)
    context = _context(problem, state)
    phase = PHASES[training["step"]](problem, algorithm)
    steps = _seconds(lambda: phase(problem, algorithm, context, 0))
    evaluation = _seconds(lambda: problem.evaluate(state.params))

    def whole_round() -> None:
        for result in engine.run(problem, algorithm, 1, state, phase):
            Record().add(result, problem, "-")

    rest = max(_seconds(whole_round) - steps - evaluation, 0.0)
    count = sum(tensor.numel() for tensor in problem.model.parameters())
    return StepTimes(steps / STEPS, evaluation / len(tokens), rest, count)


def gradient_evaluations(name: str) -> int:
    """Return how many gradients an algorithm evaluates per local step.

    Args:
        name: registry name.

    Returns:
        Counted on a quadratic problem with one step.
    """
    problem = QuadraticProblem(
        [torch.eye(2, dtype=torch.float64)], [torch.ones(2).double()], 1, 0.1
    )
    calls, gradient = 0, problem.gradient

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return gradient(*args, **named)

    problem.gradient = counted  # type: ignore[method-assign]
    algorithm = _example(name)
    state = engine.initial_state(problem, algorithm)
    engine.local_phase(problem, algorithm, _context(problem, state), 0)
    return calls


def _context(problem: Problem, state: engine.RunState) -> engine.LocalContext:
    """Return what client 0 gets in the first round."""
    return engine.LocalContext(
        state.params,
        state.server,
        state.clients[0],
        1,
        problem.local_steps,
        problem.learning_rate,
    )


def _example(name: str) -> Algorithm:
    """Return an algorithm with harmless values; every numeric argument without default gets one."""
    facts = {"permutation_groups": {"state": (), "heads": ()}}
    values = {
        key: {"estimate": "mean_gradient"}.get(key, 1)
        for key, parameter in inspect.signature(ALGORITHMS[name]).parameters.items()
        if key not in facts and parameter.default is inspect.Parameter.empty
    }
    return build(name, values, facts)


def _seconds(work: Callable[[], Any]) -> float:
    found = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])
