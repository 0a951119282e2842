"""Federated learners on the teachers' datasets."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import Field

from fedscan.config.algorithms import AlgorithmName, Hyperparameters
from fedscan.config.types import (
    Count,
    Grid,
    Name,
    OpenShare,
    Problem,
    Section,
    Seed,
)


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


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    synthetic, students = config.synthetic, config.synthetic.federated
    where = ("synthetic", "federated")
    for name, key in (("d_input", "d_input"), ("d_state", "d_state"), ("rho", "rhos")):
        if getattr(students.core, name) not in getattr(synthetic, key):
            message = f"must be one of synthetic.{key} = {getattr(synthetic, key)}"
            yield (*where, "core", name), getattr(students.core, name), message
    if students.evaluate_every > students.rounds:
        message = f"must not exceed synthetic.federated.rounds = {students.rounds}"
        yield (*where, "evaluate_every"), students.evaluate_every, message
    if students.subset > synthetic.train_sequences:
        message = f"must not exceed synthetic.train_sequences = {synthetic.train_sequences}"
        yield (*where, "subset"), students.subset, message
    for name, study in students.studies.items():
        for index, clients in enumerate(study.clients):
            if synthetic.train_sequences % clients:
                message = f"must divide synthetic.train_sequences = {synthetic.train_sequences}"
                yield (*where, "studies", name, "clients", index), clients, message
        for index, algorithm in enumerate(study.algorithms):
            if getattr(study.hyperparameters, algorithm) is None:
                key = ".".join((*where, "studies", name, "hyperparameters", algorithm))
                message = f"its values are missing: add {key}"
                yield (*where, "studies", name, "algorithms", index), algorithm, message
        yield from _pulls(study.hyperparameters, synthetic.learners.lr, (*where, "studies", name))


def _pulls(
    hyperparameters: Hyperparameters, lr: float, where: tuple[str, ...]
) -> Iterator[Problem]:
    """Theorem B.6 and Appendix E need steps that do not overshoot the pull to the broadcast."""
    for algorithm, name in (("fedprox", "mu"), ("feddyn", "alpha")):
        chosen = getattr(hyperparameters, algorithm)
        for index, value in enumerate(getattr(chosen, name) if chosen else ()):
            if lr * value > 1:
                message = f"synthetic.learners.lr * {name} must not exceed 1; lr is {lr}"
                yield (*where, "hyperparameters", algorithm, name, index), value, message
