"""Fine-tuning of a specialist: AdamW with warm-up and cosine decay, optional proximal term.

Parameters and moments stay in float32, whatever the precision of the passes: a step of 2e-4 is
below bfloat16's resolution of most weights. State goes in and comes out after every epoch.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedscan import seeds
from fedscan.params.algebra import Params, clone, norm_tensor, zeros_like
from fedscan.problems.central_steps import adamw_step, require_finite
from fedscan.problems.classification import Classifier, TaskExamples

CLIP_EPS = 1e-6


class Recipe(NamedTuple):
    """How a specialist is trained; ``mu`` is the coefficient of mu/2 ||theta - theta_0||^2."""

    epochs: int
    batch_size: int
    lr: float
    adam_betas: tuple[float, float]
    adam_eps: float
    weight_decay: float
    clip_norm: float
    warmup_share: float
    mu: float


class TrainingState(NamedTuple):
    """Everything carried from one epoch to the next."""

    epoch: int
    params: Params
    first: Params
    second: Params


class EpochResult(NamedTuple):
    """One completed epoch: the state after it, and means over its steps."""

    state: TrainingState
    train_loss: float
    gradient_norm: float
    clipped_steps: int
    steps: int


def initial_state(base: Params) -> TrainingState:
    """Return the state before the first epoch.

    Args:
        base: theta_0, float32.

    Returns:
        A copy of the base with zero moments.
    """
    return TrainingState(0, clone(base), zeros_like(base), zeros_like(base))


def learning_rate(recipe: Recipe, step: int, total: int) -> float:
    """Return the learning rate of a step: linear warm-up, then cosine to zero.

    Args:
        recipe: peak and share of the warm-up.
        step: from 1.
        total: steps of all epochs.

    Returns:
        The peak at the end of the warm-up, zero after the last step.
    """
    warm = math.ceil(recipe.warmup_share * total)
    if step <= warm:
        return recipe.lr * step / warm
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * (step - 1 - warm) / max(total - warm, 1)))


def batches(examples: int, size: int, seed: int, task: str, epoch: int) -> list[list[int]]:
    """Return an epoch's batches: every example once, in a fresh order.

    Args:
        examples: number of examples.
        size: examples per batch; the last may have fewer.
        seed: root seed.
        task: an axis of the random stream; mu is none, so that all mu see the same batches.
        epoch: from 1, another axis.

    Returns:
        Indices per batch.
    """
    order = seeds.generator(seed, "fine-tuning batches", task, epoch).permutation(examples)
    return [order[start : start + size].tolist() for start in range(0, examples, size)]


def train_epoch(
    classifier: Classifier,
    examples: TaskExamples,
    base: Params,
    recipe: Recipe,
    state: TrainingState,
    plan: Sequence[Sequence[int]],
) -> EpochResult:
    """Train one epoch.

    Args:
        classifier: loss and gradient.
        examples: training examples.
        base: theta_0, the centre of the proximal term.
        recipe: optimiser and schedule.
        state: after the epoch before.
        plan: this epoch's batches; all epochs have as many.

    Returns:
        The state after the epoch, in new tensors.

    Raises:
        Diverged: at the first non-finite loss or gradient.
    """
    params, first, second = (clone(part) for part in state[1:])
    done, total = state.epoch * len(plan), recipe.epochs * len(plan)
    losses: list[Tensor] = []
    norms: list[Tensor] = []
    for step, rows in enumerate(plan, done + 1):
        loss, gradient = classifier.gradient(params, examples, rows)
        norm = _direction(gradient, params, base, recipe)
        rate = learning_rate(recipe, step, total)
        adamw_step(
            params, gradient, first, second, step=step, rate=rate, betas=recipe.adam_betas,
            eps=recipe.adam_eps, weight_decay=recipe.weight_decay,
        )  # fmt: skip
        losses.append(loss)
        norms.append(norm)
    found, lengths = torch.stack(losses).double().cpu(), torch.stack(norms).double().cpu()
    require_finite(found, lengths, params, done)
    after = TrainingState(state.epoch + 1, params, first, second)
    clipped = int((lengths > recipe.clip_norm).sum())
    return EpochResult(after, float(found.mean()), float(lengths.mean()), clipped, done + len(plan))


def _direction(gradient: Params, params: Params, base: Params, recipe: Recipe) -> Tensor:
    """Add the proximal term and clip, in place on the private gradient; return the norm before."""
    if recipe.mu:
        for name, tensor in gradient.items():
            tensor.add_(params[name] - base[name], alpha=recipe.mu)
    norm = norm_tensor(gradient)
    factor = torch.clamp(recipe.clip_norm / (norm + CLIP_EPS), max=1.0)
    for tensor in gradient.values():
        tensor.mul_(factor.to(tensor.dtype))
    return norm
