"""The part of the configuration that describes the synthetic study."""

from typing import Annotated, Literal

from annotated_types import Ge, Le, Len
from pydantic import Field

from fedscan.config.algorithms import AlgorithmName, Hyperparameters
from fedscan.config.types import Count, Grid, Name, OpenShare, Positive, Section, Seed


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


class Core(Section):
    """The cells that one-factor variations run on."""

    d_input: Count = Field(description="D of the rho axis; one of synthetic.d_input")
    d_state: Count = Field(description="N of the rho axis; one of synthetic.d_state")
    rho: OpenShare = Field(description="rho at which all (D, N) are core; one of synthetic.rhos")


class StudentStudy(Section):
    """One grid of federated runs on the teachers' datasets: the product of its axes."""

    cells: Literal["all", "core"] = Field(
        description="'all'; 'core': every rho at the core's (D, N) and every (D, N) at its rho"
    )
    clients: Grid[Count] = Field(description="numbers of clients K; divide train_sequences")
    local_steps: Grid[Count] = Field(description="local steps per round E")
    partitions: Grid[Literal["iid", "dominant"]] = Field(
        description="'iid': random equal shards; 'dominant': sorted by top token, then cut"
    )
    algorithms: Grid[AlgorithmName] = Field(description="algorithms to run")
    hyperparameters: Hyperparameters = Field(description="values per algorithm")


class Students(Section):
    """Learners trained federatedly; learning rate and batch size are the learners'."""

    rounds: Count = Field(description="communication rounds T")
    seeds: Grid[Seed] = Field(description="root seeds of initial layer, partition and batches")
    evaluate_every: Count = Field(description="rounds between evaluations of bounds")
    subset: Count = Field(description="training sequences on which ||grad f||^2 is measured")
    core: Core
    studies: Annotated[dict[Name, StudentStudy], Len(min_length=1)] = Field(
        description="name -> grid; runs that studies share run once"
    )


class Synthetic(Section):
    """Teachers, their datasets, and the bounds checked on them (paper, Section 5 part i)."""

    d_input: Grid[Annotated[int, Ge(2), Le(64)]] = Field(description="input sizes D, tokens")
    d_state: Grid[Annotated[int, Ge(1), Le(256)]] = Field(description="state sizes N")
    rhos: Grid[OpenShare] = Field(description="stability limits rho")
    sequence_length: Annotated[int, Ge(2)] = Field(description="stored tokens per sequence S")
    burn_in: Annotated[int, Ge(0)] = Field(description="tokens discarded before the stored ones")
    train_sequences: Annotated[int, Ge(2)] = Field(description="training sequences per teacher")
    test_sequences: Annotated[int, Ge(2)] = Field(description="test sequences per teacher")
    learners: Learners
    evaluation: Evaluation
    stacks: Stacks
    federated: Students
