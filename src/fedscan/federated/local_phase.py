"""The local phase: E steps of the local optimiser along an algorithm's directions.

Order within a step: gradient, unscale, the algorithm's terms, clip, step. The optimiser is fresh
in every round. Finiteness is tested once at the end, from recorded losses and norms, so that a
GPU is not stalled every step.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fedscan.federated.algorithm import Algorithm, LocalContext, LocalResult
from fedscan.federated.problem import LocalOptimizer, Problem, Tracing
from fedscan.params.algebra import (
    Params,
    add,
    all_finite,
    clone,
    multiply,
    norm_tensor,
    subtract,
)

# Dynamic loss scaling as in torch.amp.GradScaler.
GROWTH, BACKOFF, GROWTH_INTERVAL = 2.0, 0.5, 2000
CLIP_EPS = 1e-6


class Diverged(ArithmeticError):
    """A run became non-finite.

    Attributes:
        what: quantity that is not finite.
        round_index: round from 1.
        client: client index, None at the server.
    """

    def __init__(self, what: str, round_index: int, client: int | None) -> None:
        """Record what became non-finite, and where."""
        place = "server" if client is None else f"client {client}"
        super().__init__(f"{what} at {place}, round {round_index}")
        self.what, self.round_index, self.client = what, round_index, client


class LocalOutcome(NamedTuple):
    """A local phase: its result and what was measured on the way."""

    result: LocalResult
    losses: Tensor  # (steps) float64, nats
    norms: Tensor  # (steps) float64, of the directions before clipping
    skipped_steps: int
    # What the problem's own optimiser or phase measured; None if it measures nothing.
    trace: Mapping[str, float] | None = None


def local_phase(
    problem: Problem, algorithm: Algorithm, context: LocalContext, client: int
) -> LocalOutcome:
    """Run one client's local phase of one round.

    Args:
        problem: model, data and optimiser.
        algorithm: directions of the steps.
        context: what the client received and kept; not changed.
        client: client index.

    Returns:
        The local parameters with losses and norms of all steps.

    Raises:
        Diverged: if a loss, a direction or the result is not finite.
    """
    params = clone(context.global_params)
    optimizer = problem.optimizer(list(params.values()))
    scale, good_steps, skipped = problem.loss_scale, 0, 0
    losses: list[Tensor] = []
    norms: list[Tensor] = []
    observed: Params | None = None
    for batch in problem.batches(client, context.round_index):
        gradient = partial(problem.gradient, scale=1.0 if scale is None else scale)
        step = algorithm.local_gradient(gradient, params, batch, context)
        losses.append(step.loss)
        if scale is not None:
            if not all_finite(step.direction):
                scale, good_steps, skipped = scale * BACKOFF, 0, skipped + 1
                continue
            good_steps += 1
            if good_steps == GROWTH_INTERVAL:
                scale, good_steps = scale * GROWTH, 0
        if step.observation is not None:
            observed = step.observation if observed is None else add(observed, step.observation)
        norms.append(_apply(optimizer, params, step.direction, problem.clip_norm))
    update = subtract(params, context.global_params)
    result = LocalResult(params, update, _mean(observed, len(norms)))
    trace = optimizer.trace() if isinstance(optimizer, Tracing) else None
    outcome = LocalOutcome(result, _stack(losses), _stack(norms), skipped, trace)
    require_finite(outcome, context.round_index, client)
    return outcome


def _apply(
    optimizer: LocalOptimizer, params: Params, direction: Params, clip_norm: float | None
) -> Tensor:
    """Clip and take one step in place on the private copy; return the norm before clipping."""
    gradients = [direction[name] for name in params]
    norm = norm_tensor(direction)
    if clip_norm is not None:
        # As torch.nn.utils.clip_grad_norm_, but on new tensors: a direction may be kept elsewhere.
        factor = torch.clamp(clip_norm / (norm + CLIP_EPS), max=1.0).to(gradients[0].dtype)
        gradients = [gradient * factor for gradient in gradients]
    for tensor, gradient in zip(params.values(), gradients, strict=True):
        tensor.grad = gradient
    optimizer.step()
    return norm


def _mean(total: Params | None, count: int) -> Params | None:
    return None if total is None else multiply(total, 1.0 / count)


def _stack(scalars: Sequence[Tensor]) -> Tensor:
    if not scalars:
        return torch.empty(0, dtype=torch.float64)
    return torch.stack([scalar.detach().to(torch.float64) for scalar in scalars]).cpu()


def require_finite(outcome: LocalOutcome, round_index: int, client: int) -> None:
    """Check a finished local phase.

    Args:
        outcome: the phase.
        round_index: round from 1.
        client: client index.

    Raises:
        Diverged: if a loss, a direction or the result is not finite; names the first.
    """
    bad = first_non_finite(outcome.losses, outcome.norms)
    if bad is not None:
        raise Diverged(f"non-finite {bad[1]} in local step {bad[0]}", round_index, client)
    if not len(outcome.norms):
        raise Diverged("every local step overflowed float16", round_index, client)
    if not all_finite(outcome.result.params):
        raise Diverged("non-finite local parameters", round_index, client)


def first_non_finite(losses: Tensor, norms: Tensor) -> tuple[int, str] | None:
    """Find the step at which training became non-finite.

    Args:
        losses: of the steps, (steps).
        norms: of their gradients, (steps).

    Returns:
        Step from 1, and 'loss' or 'gradient'; None if all are finite. The earliest step is the
        cause; within a step the loss comes before its gradient.
    """
    bad = []
    for order, (name, values) in enumerate((("loss", losses), ("gradient", norms))):
        if math.isfinite(float(values.sum())):
            continue
        # Not finite, or a sum of finite numbers that is not.
        steps = (~torch.isfinite(values)).nonzero()
        if len(steps):
            bad.append((int(steps[0]) + 1, order, name))
    if not bad:
        return None
    step, _, name = min(bad)
    return step, name
