"""Central training with AdamW, linear warm-up and cosine decay to a share of the peak.

Weight decay is on matrices only. State goes in and comes out, so that a run can stop between steps.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedscan import seeds
from fedscan.params.algebra import Params, clone, norm_tensor, zeros_like
from fedscan.problems.central_steps import adamw_step, require_finite

CLIP_EPS = 1e-6
# Share of the peak that the cosine ends at.
LAST_SHARE = 0.1


class Recipe(NamedTuple):
    """How a model is trained; steps are optimiser steps, ``batch_size`` sequences."""

    steps: int
    batch_size: int
    lr: float
    adam_betas: tuple[float, float]
    adam_eps: float
    weight_decay: float
    clip_norm: float
    warmup_share: float


class State(NamedTuple):
    """Everything carried from one step to the next."""

    step: int
    params: Params
    first: Params
    second: Params


class Steps(NamedTuple):
    """Some steps: the state after them, each one's loss and gradient norm before clipping."""

    state: State
    losses: list[float]
    norms: list[float]


def start(params: Params) -> State:
    """Return the state before the first step.

    Args:
        params: initial model.

    Returns:
        A copy of it with zero moments.
    """
    return State(0, clone(params), zeros_like(params), zeros_like(params))


def learning_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of a step.

    Args:
        recipe: peak, steps, share of the warm-up.
        step: from 1.

    Returns:
        The peak at the end of the warm-up, a tenth of it at the last step.
    """
    warm = math.ceil(recipe.warmup_share * recipe.steps)
    if step <= warm:
        return recipe.lr * step / warm
    done = (step - warm) / max(recipe.steps - warm, 1)
    return recipe.lr * (LAST_SHARE + (1 - LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * done)))


def batch_rows(examples: int, size: int, seed: int, task: str) -> Iterator[list[int]]:
    """Yield batches without end: every epoch has each example once, in a fresh order.

    Args:
        examples: number of examples.
        size: examples per batch; a batch may reach into the next epoch.
        seed: root seed.
        task: an axis of the random stream; the model is none, so that all see the same batches.

    Yields:
        Indices.
    """
    epoch, waiting = 0, list[int]()
    while True:
        while len(waiting) < size:
            stream = seeds.generator(seed, "task batches", task, epoch)
            waiting += stream.permutation(examples).tolist()
            epoch += 1
        yield waiting[:size]
        waiting = waiting[size:]


def train(
    gradient: Callable[[Params, Any], tuple[Tensor, Params]],
    batches: Sequence[Any],
    recipe: Recipe,
    state: State,
) -> Steps:
    """Take a step per batch.

    Args:
        gradient: (parameters, batch) -> loss and gradient.
        batches: of the next steps.
        recipe: optimiser and schedule.
        state: where to start; not changed.

    Returns:
        The state after them, in new tensors.

    Raises:
        Diverged: at the first non-finite loss or gradient.
    """
    params, first, second = (clone(part) for part in state[1:])
    decayed = [name for name, tensor in params.items() if tensor.ndim > 1]
    groups = (
        (decayed, recipe.weight_decay),
        ([name for name in params if name not in set(decayed)], 0.0),
    )
    losses: list[Tensor] = []
    norms: list[Tensor] = []
    for step, batch in enumerate(batches, state.step + 1):
        loss, slope = gradient(params, batch)
        norm = norm_tensor(slope)
        factor = torch.clamp(recipe.clip_norm / (norm + CLIP_EPS), max=1.0)
        clipped = {n: t * factor.to(t.dtype) for n, t in slope.items()}
        for names, decay in groups:
            trees = ({n: tree[n] for n in names} for tree in (params, clipped, first, second))
            adamw_step(
                *trees, step=step, rate=learning_rate(recipe, step), betas=recipe.adam_betas,
                eps=recipe.adam_eps, weight_decay=decay,
            )  # fmt: skip
        losses.append(loss)
        norms.append(norm)
    found, lengths = torch.stack(losses).double().cpu(), torch.stack(norms).double().cpu()
    require_finite(found, lengths, params, state.step)
    after = State(state.step + len(batches), params, first, second)
    return Steps(after, found.tolist(), lengths.tolist())
