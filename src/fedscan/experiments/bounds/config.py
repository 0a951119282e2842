"""Central learners, and how bounds are compared with measurements."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field

from fedscan.config.types import (
    Count,
    Grid,
    OpenShare,
    Positive,
    Problem,
    Section,
    Seed,
)


class Learners(Section):
    """Layers trained centrally on a teacher's sequences by projected SGD."""

    seeds: Grid[Seed] = Field(description="root seeds of initial layer and batches")
    lr: Positive = Field(description="learning rate eta of SGD")
    batch_size: Count = Field(description="sequences per update; divides train_sequences")
    updates: Count = Field(description="updates per run")
    checkpoint_every: Count = Field(description="updates between checkpoints")
    bound_checkpoints: Grid[Annotated[int, Ge(0)]] = Field(
        description="updates after which bounds are evaluated; multiples of checkpoint_every"
    )


class Evaluation(Section):
    """How gradients and curvature are measured."""

    kernels: Literal["cpu", "triton"] = Field(
        description="'cpu': compiled by Numba; 'triton': gradients on a CUDA device"
    )
    sequences: Count = Field(description="test sequences whose curvature is measured, drawn once")
    iterations: Count = Field(description="power iterations for a Hessian's norm at most")
    tolerance: Positive = Field(description="relative change of the Rayleigh quotient that stops")
    step: Positive = Field(description="length h of finite-difference steps")


class Stacks(Section):
    """Multi-layer bounds, which the paper states and does not evaluate."""

    depths: Grid[Annotated[int, Ge(1), Le(8)]] = Field(description="numbers of layers Q")
    d_input: Annotated[int, Ge(2), Le(64)] = Field(description="D; one of synthetic.d_input")
    d_state: Annotated[int, Ge(1), Le(256)] = Field(description="N; one of synthetic.d_state")
    rhos: Grid[OpenShare] = Field(description="stability limits; a part of synthetic.rhos")
    scales: Grid[Positive] = Field(description="standard deviations of random layers' weights")
    points: Count = Field(description="random points per depth, rho and scale")
    sequences: Count = Field(description="test sequences per point")
    length: Annotated[int, Ge(2)] = Field(description="tokens used of each sequence, from its head")
    updates: Count = Field(description="SGD updates of the trained stacks")


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    synthetic, learners = config.synthetic, config.synthetic.learners
    if synthetic.train_sequences % learners.batch_size:
        message = f"must divide synthetic.train_sequences = {synthetic.train_sequences}"
        yield ("synthetic", "learners", "batch_size"), learners.batch_size, message
    if learners.updates % learners.checkpoint_every:
        message = f"must divide synthetic.learners.updates = {learners.updates}"
        yield ("synthetic", "learners", "checkpoint_every"), learners.checkpoint_every, message
    if len(learners.bound_checkpoints) < 2:
        message = "at least two: neighbours along training are compared with one another"
        yield ("synthetic", "learners", "bound_checkpoints"), learners.bound_checkpoints, message
    for index, update in enumerate(learners.bound_checkpoints):
        if update % learners.checkpoint_every or update > learners.updates:
            message = (
                f"must be a multiple of checkpoint_every = {learners.checkpoint_every},"
                f" at most updates = {learners.updates}"
            )
            yield ("synthetic", "learners", "bound_checkpoints", index), update, message
    if synthetic.evaluation.sequences > synthetic.test_sequences:
        message = f"must not exceed synthetic.test_sequences = {synthetic.test_sequences}"
        yield ("synthetic", "evaluation", "sequences"), synthetic.evaluation.sequences, message
    yield from _stacks(config)


def _stacks(config: Any) -> Iterator[Problem]:
    synthetic, stacks = config.synthetic, config.synthetic.stacks
    where = ("synthetic", "stacks")
    for name in ("d_input", "d_state"):
        if getattr(stacks, name) not in getattr(synthetic, name):
            message = f"must be one of synthetic.{name} = {getattr(synthetic, name)}"
            yield (*where, name), getattr(stacks, name), message
    for index, rho in enumerate(stacks.rhos):
        if rho not in synthetic.rhos:
            message = f"must be one of synthetic.rhos = {synthetic.rhos}"
            yield (*where, "rhos", index), rho, message
    if stacks.length > synthetic.sequence_length:
        message = f"must not exceed synthetic.sequence_length = {synthetic.sequence_length}"
        yield (*where, "length"), stacks.length, message
    if stacks.sequences > synthetic.test_sequences:
        message = f"must not exceed synthetic.test_sequences = {synthetic.test_sequences}"
        yield (*where, "sequences"), stacks.sequences, message
