"""A local phase whose step is recorded once and replayed: one launch a step, no waiting.

The same arithmetic as ``local_phase``, which is the reference, with every decision (a skipped
step, the loss scale) made on the device and every tensor at a fixed address. How a step is
recorded is an argument: ``cuda_graph.capture``, or nothing at all.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedscan.federated.algorithm import Algorithm, LocalContext, LocalResult, State, Step
from fedscan.federated.local_phase import (
    BACKOFF,
    CLIP_EPS,
    GROWTH,
    GROWTH_INTERVAL,
    LocalOutcome,
    require_finite,
)
from fedscan.federated.problem import Problem
from fedscan.params.algebra import Params, clone, multiply, norm_tensor, subtract, zeros_like

# Called with a step that may be run any number of times; returns what runs it once more.
Capture = Callable[[Callable[[], None]], Callable[[], None]]


@runtime_checkable
class Recordable(Protocol):
    """A local optimiser that can start again and skip a step without the host knowing."""

    def reset(self) -> None:
        """Forget all steps, in place."""
        ...

    def step(self, skip: Tensor | None = None) -> Any:
        """Take one step along the tensors' ``grad``, unless ``skip`` is 1.0."""
        ...


class RecordedPhase:
    """Runs local phases of one problem and one algorithm, as ``engine.LocalPhase``."""

    def __init__(self, problem: Problem, algorithm: Algorithm, capture: Capture) -> None:
        """Record nothing yet.

        Args:
            problem: model, data and optimiser; its ``gradient`` accepts a tensor as scale.
            algorithm: directions of the steps.
            capture: makes a replay out of a step.
        """
        self._problem, self._algorithm, self._capture = problem, algorithm, capture
        self._recordings: dict[bool, _Recording] = {}

    @torch.no_grad()
    def __call__(
        self, problem: Problem, algorithm: Algorithm, context: LocalContext, client: int
    ) -> LocalOutcome:
        """Run one client's local phase of one round.

        Args:
            problem: the one given at the beginning.
            algorithm: the one given at the beginning.
            context: what the client received and kept; not changed.
            client: client index.

        Returns:
            The local parameters with losses and norms of all steps.

        Raises:
            ValueError: for another problem or algorithm.
            Diverged: if a loss, a direction or the result is not finite.
        """
        if problem is not self._problem or algorithm is not self._algorithm:
            raise ValueError("a recorded phase serves one problem and one algorithm; make another")
        recording = self.prepared(context, client)
        for _ in range(context.local_steps):
            recording.replay()
        outcome = recording.outcome(context)
        require_finite(outcome, context.round_index, client)
        return outcome

    def prepared(self, context: LocalContext, client: int) -> "_Recording":
        """Return the recording of the round's step, loaded for a client's first step.

        Args:
            context: what the client received and kept.
            client: client index.

        Returns:
            A recording; ``replay`` takes one step.
        """
        batches = torch.stack(list(self._problem.batches(client, context.round_index)))
        observed = self._algorithm.observes(context.round_index)
        if observed not in self._recordings:
            made = _Recording(self._problem, self._algorithm, context, batches, observed)
            made.replay = self._capture(made.advance)
            self._recordings[observed] = made
        self._recordings[observed].load(context, batches)
        return self._recordings[observed]


class _Recording:
    """Fixed addresses of everything a step reads and writes."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        context: LocalContext,
        batches: Tensor,
        observed: bool,
    ) -> None:
        self._problem, self._algorithm = problem, algorithm
        self._params = clone(context.global_params)
        self._context = context._replace(
            global_params=clone(context.global_params),
            server_state=_clone_state(context.server_state),
            client_state=_clone_state(context.client_state),
        )
        self._batches = batches.clone()
        self._observed = zeros_like(context.global_params) if observed else None
        optimizer = problem.optimizer(list(self._params.values()))
        if not isinstance(optimizer, Recordable):
            raise ValueError(f"{type(optimizer).__name__} cannot be recorded: it has no reset()")
        self._optimizer = optimizer
        steps, device = len(batches), batches.device
        self._losses = torch.zeros(steps, dtype=torch.float64, device=device)
        self._norms = torch.zeros(steps, dtype=torch.float64, device=device)
        self._applied = torch.zeros(steps, dtype=torch.bool, device=device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        self._good = torch.zeros((), dtype=torch.int64, device=device)
        self._scale = torch.ones((), dtype=torch.float32, device=device)
        self.replay: Callable[[], None] = self.advance

    def load(self, context: LocalContext, batches: Tensor) -> None:
        """Go to the beginning of a phase.

        Args:
            context: what the client received and kept.
            batches: (steps, ...) all batches of the phase.
        """
        _copy(self._params, context.global_params)
        _copy(self._context.global_params, context.global_params)
        for kept, fresh in (
            (self._context.server_state, context.server_state),
            (self._context.client_state, context.client_state),
        ):
            for part, params in fresh.items():
                _copy(kept[part], params)
        self._batches.copy_(batches)
        self._optimizer.reset()
        for tensor in (self._row, self._good, *(self._observed or {}).values()):
            tensor.zero_()
        self._scale.fill_(1.0 if self._problem.loss_scale is None else self._problem.loss_scale)

    def advance(self) -> None:
        """Take one step; the row wraps around, so that rehearsals stay inside the batches."""
        scaled = self._problem.loss_scale is not None
        scale = self._scale if scaled else 1.0
        batch = self._batches.index_select(0, self._row).squeeze(0)
        gradient = partial(self._problem.gradient, scale=scale)
        step = self._algorithm.local_gradient(gradient, self._params, batch, self._context)
        # The sum of squares is float64: not finite only if an entry is not.
        norm = norm_tensor(step.direction)
        applied = torch.isfinite(norm) if scaled else torch.ones_like(norm, dtype=torch.bool)
        self._apply(step, norm, (~applied).to(torch.float32) if scaled else None)
        if self._observed is not None:
            self._observe(step, applied)
        self._losses.index_copy_(0, self._row, step.loss.to(torch.float64).view(1))
        self._norms.index_copy_(0, self._row, norm.to(torch.float64).view(1))
        self._applied.index_copy_(0, self._row, applied.view(1))
        self._row.add_(1).remainder_(len(self._batches))
        if scaled:
            self._rescale(applied)

    def outcome(self, context: LocalContext) -> LocalOutcome:
        """Read a finished phase.

        Args:
            context: what the client received.

        Returns:
            Its result, in tensors of its own.
        """
        params = clone(self._params)
        applied = self._applied.cpu()
        count = int(applied.sum())
        mean = None
        if self._observed is not None:
            mean = multiply(self._observed, 1.0 / max(count, 1))
        result = LocalResult(params, subtract(params, context.global_params), mean)
        norms = self._norms.cpu()[applied]
        return LocalOutcome(result, self._losses.clone().cpu(), norms, len(applied) - count)

    def _apply(self, step: Step, norm: Tensor, skip: Tensor | None) -> None:
        gradients = [step.direction[name] for name in self._params]
        if self._problem.clip_norm is not None:
            factor = torch.clamp(self._problem.clip_norm / (norm + CLIP_EPS), max=1.0)
            gradients = list(torch._foreach_mul(gradients, factor.to(gradients[0].dtype)))
        for tensor, gradient in zip(self._params.values(), gradients, strict=True):
            tensor.grad = gradient
        self._optimizer.step(skip)

    def _observe(self, step: Step, applied: Tensor) -> None:
        if self._observed is None or step.observation is None:
            raise ValueError(f"{self._algorithm.name} announced an observation and made none")
        for name, total in self._observed.items():
            # Not a product with zero: a skipped step's observation may be infinite.
            total.add_(torch.where(applied, step.observation[name], 0.0))

    def _rescale(self, applied: Tensor) -> None:
        good = torch.where(applied, self._good + 1, 0)
        grown = good == GROWTH_INTERVAL
        factor = torch.where(applied, torch.where(grown, GROWTH, 1.0), BACKOFF)
        self._scale.mul_(factor)
        self._good.copy_(torch.where(grown, 0, good))


def _clone_state(state: Mapping[str, Params]) -> State:
    return {part: clone(params) for part, params in state.items()}


def _copy(kept: Params, fresh: Mapping[str, Tensor]) -> None:
    for name, tensor in kept.items():
        tensor.copy_(fresh[name])
