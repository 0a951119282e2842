"""Learners that train federatedly on a teacher's sequences (paper, Appendix G.3).

The same engine and algorithm files as the language models. Local steps are projected SGD; where
an algorithm's local rule is plain or proximal, a compiled kernel takes all of them in one call.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from fedscan.federated.algorithm import Algorithm, LocalContext, LocalResult, ServerStep
from fedscan.federated.algorithms.fedavg import plain_gradient
from fedscan.federated.algorithms.fedprox import ProximalGradient
from fedscan.federated.engine import LocalPhase
from fedscan.federated.local_phase import LocalOutcome, local_phase, require_finite
from fedscan.federated.problem import Problem
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import BLOCKS, Blocks, Shape, blocks, flat
from fedscan.models.selective_ssm.stability import Margins, limits, project, softplus
from fedscan.params.algebra import Params, subtract
from fedscan.params.permutation import PermutationGroup, Slot
from fedscan.problems.learner import initial_params
from fedscan.seeds import generator


def shards(tokens: np.ndarray, clients: int, partition: str, seed: int) -> list[np.ndarray]:
    """Deal the training sequences to clients, disjoint and of equal size.

    Args:
        tokens: (sequences, length) uint8.
        clients: K, which divides the number of sequences.
        partition: 'iid': a random order, cut; 'dominant': sorted by most frequent token, then by
            its share, then cut, so that clients differ in token composition.
        seed: of the random order.

    Returns:
        Per client (sequences / K, length).

    Raises:
        ValueError: for another partition or an uneven cut.
    """
    if len(tokens) % clients:
        raise ValueError(f"{len(tokens)} sequences cannot be cut into {clients} equal shards")
    if partition == "iid":
        order = generator(seed, "iid partition").permutation(len(tokens))
    elif partition == "dominant":
        size = int(tokens.max()) + 1
        counts = np.stack([np.bincount(row, minlength=size) for row in tokens])
        order = np.lexsort((counts.max(axis=1), counts.argmax(axis=1)))
    else:
        raise ValueError(f"partition {partition!r} is not known; use 'iid' or 'dominant'")
    return [np.ascontiguousarray(tokens[part]) for part in np.split(order, clients)]


class ProjectedSgd:
    """SGD with the projection after every step; remembers how far it went."""

    def __init__(self, tensors: Sequence[Tensor], learning_rate: float, margins: Margins) -> None:
        """Bind the blocks in the order of ``BLOCKS``; they are changed in place."""
        self._tensors, self._rate, self._margins = list(tensors), learning_rate, margins
        self._start = [tensor.clone() for tensor in tensors]
        self.displacement, self.projected, self.stable = 0.0, 0, True

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the tensors' gradients."""
        for tensor in self._tensors:
            tensor -= self._rate * tensor.grad
        before = [tensor.clone() for tensor in self._tensors]
        largest, smallest = limits(self._margins, self._tensors[0].numpy().dtype)
        self._tensors[0].clamp_(min=float(smallest))
        self._tensors[3].clamp_(max=float(largest))
        moved = zip(self._tensors, self._start, strict=True)
        distance = sum(float(((t.double() - s.double()) ** 2).sum()) for t, s in moved) ** 0.5
        self.displacement = max(self.displacement, distance)
        self.projected += sum(
            int((t != b).sum()) for t, b in zip(self._tensors, before, strict=True)
        )
        delta = float(softplus(self._tensors[0].double().numpy()).min())
        gamma = -float(self._tensors[3].double().max())
        self.stable &= delta >= self._margins.delta and gamma >= self._margins.gamma

    def trace(self) -> dict[str, float]:
        """Return the largest distance from the start, entries projected, and the certificate."""
        return {
            "displacement": self.displacement,
            "projected": self.projected,
            "stable": self.stable,
        }


class TeacherStudentProblem:
    """K clients' shards of a teacher's training sequences, and its test sequences."""

    def __init__(
        self,
        shape: Shape,
        margins: Margins,
        client_tokens: Sequence[np.ndarray],
        test: np.ndarray,
        local_steps: int,
        batch_size: int,
        learning_rate: float,
        seed: int,
    ) -> None:
        """Bind data and schedule.

        Args:
            shape: sizes of the layer.
            margins: configured gamma and delta.
            client_tokens: per client (sequences, length) uint8.
            test: (sequences, length) uint8.
            local_steps: E.
            batch_size: sequences per step, drawn with replacement.
            learning_rate: eta.
            seed: root seed of initial layer and batches.
        """
        self.shape, self.margins, self.client_tokens = shape, margins, list(client_tokens)
        self.test, self.batch_size, self.seed = test, batch_size, seed
        self.local_steps, self.learning_rate = local_steps, learning_rate
        self.weights = [1 / len(client_tokens)] * len(client_tokens)
        self.clip_norm: float | None = None
        self.loss_scale: float | None = None

    def initial_params(self) -> Params:
        """Return the centralised learner's start of the same seed."""
        return to_params(initial_params(self.shape, self.margins, self.seed), self.shape)

    def indices(self, client: int, round_index: int) -> np.ndarray:
        """Return (steps, batch) indices into the client's shard."""
        random = generator(self.seed, "student batches", client, round_index)
        size = (self.local_steps, self.batch_size)
        return random.integers(0, len(self.client_tokens[client]), size)

    def batches(self, client: int, round_index: int) -> Iterator[np.ndarray]:
        """Yield the tokens of every step."""
        for rows in self.indices(client, round_index):
            yield np.ascontiguousarray(self.client_tokens[client][rows])

    def gradient(
        self, params: Params, batch: np.ndarray, scale: float | Tensor
    ) -> tuple[Tensor, Params]:
        """Return loss and gradient at ``params`` by the compiled kernel."""
        loss, found = cpu.gradient(to_vector(params), batch, self.shape)
        return torch.tensor(loss, dtype=torch.float64), to_params(found, self.shape)

    def optimizer(self, tensors: Sequence[Tensor]) -> ProjectedSgd:
        """Return projected SGD."""
        return ProjectedSgd(tensors, self.learning_rate, self.margins)

    def evaluate(self, params: Params) -> float:
        """Return the test NLL in nats per token."""
        return float(cpu.losses(to_vector(params), self.test, self.shape).mean())


def to_vector(params: Params) -> np.ndarray:
    """Return named blocks as one flat vector.

    Args:
        params: the four blocks.

    Returns:
        (parameters).
    """
    return flat(Blocks(*(params[name].numpy() for name in BLOCKS)))


def to_params(vector: np.ndarray, shape: Shape) -> Params:
    """Return a flat vector as named blocks in torch's own memory.

    Args:
        vector: (parameters).
        shape: sizes of the layer.

    Returns:
        The four blocks.
    """
    parts = blocks(vector, shape)._asdict()
    return {name: torch.from_numpy(part).clone() for name, part in parts.items()}


def projected(algorithm: Algorithm, margins: Margins) -> Algorithm:
    """Return the algorithm with the projection after every server step.

    Args:
        algorithm: any.
        margins: configured gamma and delta.

    Returns:
        The same local rule; the new global model lies in the stability set.
    """

    def server_update(*received) -> ServerStep:  # type: ignore[no-untyped-def]
        step = algorithm.server_update(*received)
        layer = project(Blocks(*(step.params[name].numpy() for name in BLOCKS)), margins)
        inside = {name: torch.from_numpy(np.asarray(x)) for name, x in layer._asdict().items()}
        return step._replace(params=inside)

    return algorithm._replace(server_update=server_update)


def phase_of(algorithm: Algorithm) -> LocalPhase:
    """Return the fastest local phase that follows the algorithm's local rule.

    Args:
        algorithm: any; one whose local rule is FedAvg's or FedProx's is compiled, whatever its
            server does. The rule itself decides, not names of algorithms or hyperparameters.

    Returns:
        The compiled phase, or the generic one.
    """
    rule = algorithm.local_gradient
    if rule is plain_gradient:
        pull = 0.0
    elif isinstance(rule, ProximalGradient):
        pull = rule.mu
    else:
        return local_phase

    def compiled(
        problem: Problem, _algorithm: Algorithm, context: LocalContext, client: int
    ) -> LocalOutcome:
        return _compiled_phase(problem, context, client, pull)

    return compiled


def _compiled_phase(
    problem: Problem, context: LocalContext, client: int, mu: float
) -> LocalOutcome:
    if not isinstance(problem, TeacherStudentProblem):
        raise TypeError(f"the compiled phase takes learners, not {type(problem).__name__}")
    phase = cpu.local_steps(
        to_vector(context.global_params),
        problem.client_tokens[client],
        problem.indices(client, context.round_index),
        problem.shape,
        problem.margins,
        problem.learning_rate,
        mu,
    )
    params = to_params(phase.params, problem.shape)
    result = LocalResult(params, subtract(params, context.global_params), None)
    trace = {
        "displacement": float(phase.displacements.max()),
        "projected": int(phase.projected.sum()),
        "stable": bool(phase.stable.all()),
    }
    norms = torch.from_numpy(phase.direction_norms)
    outcome = LocalOutcome(result, torch.from_numpy(phase.losses), norms, 0, trace)
    require_finite(outcome, context.round_index, client)
    return outcome


def permutation_groups(shape: Shape) -> dict[str, tuple[PermutationGroup, ...]]:
    """Return what FedAlign may reorder: the N states, with rows of W_B and W_C and entries of A.

    Args:
        shape: sizes of the layer.

    Returns:
        Kind -> groups; a layer of this kind has no heads.
    """
    slots = tuple(Slot(name, 0, 0, 1) for name in ("W_B", "W_C", "A"))
    return {"state": (PermutationGroup("states", shape.d_state, slots),), "heads": ()}
