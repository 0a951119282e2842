"""What the federated core needs to know of a model and its data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from fedscan.params.algebra import Params


class LocalOptimizer(Protocol):
    """Takes one step in place along the tensors' ``grad``, as torch's optimisers do."""

    def step(self) -> Any:
        """Take one step."""
        ...


@runtime_checkable
class Tracing(Protocol):
    """A local optimiser that measures its own path."""

    def trace(self) -> Mapping[str, float]:
        """Return what was measured since the optimiser was made."""
        ...


class Problem(Protocol):
    """A model, K clients' data and a local optimiser, behind plain functions.

    Attributes:
        weights: p_k per client, summing to one; their number is K.
        local_steps: steps of a local phase E.
        learning_rate: of the local optimiser.
        clip_norm: largest norm of a step's direction; None leaves it alone.
        loss_scale: initial scale of the loss under float16, None without loss scaling.
    """

    @property
    def weights(self) -> Sequence[float]: ...  # noqa: D102

    @property
    def local_steps(self) -> int: ...  # noqa: D102

    @property
    def learning_rate(self) -> float: ...  # noqa: D102

    @property
    def clip_norm(self) -> float | None: ...  # noqa: D102

    @property
    def loss_scale(self) -> float | None: ...  # noqa: D102

    def initial_params(self) -> Params:
        """Return the model every client starts from."""
        ...

    def batches(self, client: int, round_index: int) -> Iterable[Any]:
        """Return the batches of one local phase; a function of its arguments alone."""
        ...

    def gradient(self, params: Params, batch: Any, scale: float | Tensor) -> tuple[Tensor, Params]:
        """Return loss and gradient at ``params``; the loss is scaled during backward only."""
        ...

    def optimizer(self, tensors: Sequence[Tensor]) -> LocalOptimizer:
        """Return a fresh local optimiser of ``tensors``."""
        ...

    def evaluate(self, params: Params) -> float:
        """Return the server's validation loss, a mean cross-entropy in nats per token."""
        ...
