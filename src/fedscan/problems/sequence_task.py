"""Tasks on token sequences whose loss is at some positions only: loss, gradient, answers."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedscan.data.sampling import batch_indices
from fedscan.models.sequence_model import SequenceModel
from fedscan.params.algebra import Params
from fedscan.problems.adamw import AdamW
from fedscan.problems.language_model import AUTOCAST, Schedule

# Any id does: what follows a sequence reaches none of its positions.
PADDING = 0
TOP = 5


class TaskSequences(NamedTuple):
    """Sequences of a task.

    Attributes:
        tokens: per sequence its ids, (length) int64.
        answers: per sequence the id to be predicted at each position, -1 for none, (length) int64.
    """

    tokens: Sequence[np.ndarray]
    answers: Sequence[np.ndarray]

    def only(self, rows: Sequence[int]) -> "TaskSequences":
        """Return some sequences, by index."""
        return TaskSequences([self.tokens[i] for i in rows], [self.answers[i] for i in rows])


class Scored(NamedTuple):
    """What a model made of the answers of some sequences, sequence by sequence, place by place.

    Attributes:
        sequence: index of the sequence, (answers).
        correct: whether the allowed token with the highest logit is the answer, (answers).
        top: whether the answer is among the five highest allowed, (answers).
        loss: cross-entropy over the whole vocabulary in nats, (answers) float64.
    """

    sequence: np.ndarray
    correct: np.ndarray
    top: np.ndarray
    loss: np.ndarray


class AnswerLogits(nn.Module):
    """Logits at the positions with an answer."""

    def __init__(self, model: SequenceModel) -> None:
        """Wrap ``model``."""
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, asked: Tensor) -> Tensor:
        """Return the logits.

        Args:
            ids: (batch, length) int64, padded on the right.
            asked: which positions have an answer, (batch, length) bool.

        Returns:
            (answers, vocabulary), float32 or wider.
        """
        logits = self.model.logits(self.model(ids)[asked])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


class SequenceTask:
    """A model's shape bound to device and precision; parameters are given with every call."""

    def __init__(self, model: SequenceModel, precision: str, device: str) -> None:
        """Bind.

        Args:
            model: gives the computation; its own values are not used.
            precision: ``float32`` or ``bfloat16`` autocast of forward and backward passes.
            device: torch device.
        """
        self._logits = AnswerLogits(model.to(device))
        self._device, self._autocast = device, AUTOCAST[precision]

    def place(self, params: Params) -> Params:
        """Return the parameters in float32 on the task's device."""
        return {name: tensor.to(self._device, torch.float32) for name, tensor in params.items()}

    def gradient(
        self, params: Params, batch: TaskSequences, scale: float | Tensor = 1.0
    ) -> tuple[Tensor, Params]:
        """Return the mean cross-entropy of a batch's answers and its gradient.

        Args:
            params: result of ``place``.
            batch: sequences.
            scale: of the loss during the backward pass only.

        Returns:
            Loss, detached, in nats per answer, and gradient in float32.
        """
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in params.items()}
        ids, asked, answers = self._padded(batch)
        plain = isinstance(scale, float) and scale == 1.0
        with torch.enable_grad():
            with self._precision():
                loss = F.cross_entropy(self._call(leaves, ids, asked), answers)
            scaled = loss if plain else loss * scale
        gradients = torch.autograd.grad(scaled, list(leaves.values()))
        if not plain:
            gradients = torch._foreach_div(gradients, scale)
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    @torch.no_grad()
    def score(
        self, params: Params, sequences: TaskSequences, allowed: range, batch_size: int
    ) -> Scored:
        """Answer every position that asks.

        Args:
            params: result of ``place``.
            sequences: of the task.
            allowed: token ids an answer may be.
            batch_size: sequences per pass.

        Returns:
            One entry per answer.
        """
        parts = []
        for first in range(0, len(sequences.tokens), batch_size):
            rows = range(first, min(first + batch_size, len(sequences.tokens)))
            ids, asked, answers = self._padded(sequences.only(rows))
            with self._precision():
                logits = self._call(params, ids, asked)
            loss = F.cross_entropy(logits, answers, reduction="none").double()
            among = logits[:, allowed.start : allowed.stop]
            wanted = answers - allowed.start
            # Of equal logits the first counts, as of an arg max.
            best = among.argmax(-1) == wanted
            above = (among > among.gather(-1, wanted[:, None])).sum(-1)
            sequence = asked.nonzero()[:, 0] + first
            parts.append([t.cpu().numpy() for t in (sequence, best, above < TOP, loss)])
        return Scored(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _call(self, params: Params, ids: Tensor, asked: Tensor) -> Any:
        named = {f"model.{name}": tensor for name, tensor in params.items()}
        return functional_call(self._logits, named, (ids, asked))

    def _padded(self, batch: TaskSequences) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids (batch, length), which positions ask, and the answers (answers)."""
        longest = max(len(tokens) for tokens in batch.tokens)
        ids = np.full((len(batch.tokens), longest), PADDING, np.int64)
        answers = np.full_like(ids, -1)
        for row, (tokens, wanted) in enumerate(zip(*batch, strict=True)):
            ids[row, : len(tokens)], answers[row, : len(tokens)] = tokens, wanted
        asked = answers >= 0
        parts = (ids, asked, answers[asked])
        found = tuple(torch.from_numpy(part).to(self._device) for part in parts)
        return found[0], found[1], found[2]

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device, dtype=self._autocast)


class SequenceClients:
    """Clients that train a task's model federatedly; a ``federated.problem.Problem``."""

    loss_scale: float | None = None

    def __init__(
        self,
        task: SequenceTask,
        initial: Params,
        clients: Sequence[TaskSequences],
        validation: TaskSequences,
        schedule: Schedule,
        seed: int,
    ) -> None:
        """Bind.

        Args:
            task: loss and gradient.
            initial: parameters of the model everyone starts from.
            clients: each one's training sequences.
            validation: the server's.
            schedule: of the local phase.
            seed: root seed of the batches.
        """
        self.task, self._clients, self._validation = task, clients, validation
        self._initial, self._schedule, self._seed = task.place(initial), schedule, seed

    @property
    def weights(self) -> Sequence[float]:
        """Return p_k, by sequences held."""
        total = sum(len(client.tokens) for client in self._clients)
        return [len(client.tokens) / total for client in self._clients]

    @property
    def local_steps(self) -> int:
        """Return E."""
        return self._schedule.local_steps

    @property
    def learning_rate(self) -> float:
        """Return the local learning rate."""
        return self._schedule.lr

    @property
    def clip_norm(self) -> float | None:
        """Return the largest norm of a step's direction."""
        return self._schedule.clip_norm

    def initial_params(self) -> Params:
        """Return the model everyone starts from."""
        return {name: tensor.clone() for name, tensor in self._initial.items()}

    def batches(self, client: int, round_index: int) -> Iterator[TaskSequences]:
        """Yield the client's batches of a round."""
        schedule, own = self._schedule, self._clients[client]
        rows = batch_indices(
            self._seed, client, round_index, len(own.tokens), schedule.local_steps,
            schedule.batch_size,
        )  # fmt: skip
        for chosen in rows:
            yield own.only(chosen.tolist())

    def gradient(
        self, params: Params, batch: TaskSequences, scale: float | Tensor
    ) -> tuple[Tensor, Params]:
        """Return mean cross-entropy and its gradient in float32."""
        return self.task.gradient(params, batch, scale)

    def optimizer(self, tensors: Sequence[Tensor]) -> AdamW:
        """Return a fresh AdamW."""
        s = self._schedule
        return AdamW(tensors, s.lr, (s.adam_betas[0], s.adam_betas[1]), s.adam_eps, s.weight_decay)

    def evaluate(self, params: Params) -> float:
        """Return the mean cross-entropy of the server's answers, in nats."""
        vocabulary = range(len(self._initial["embedding.weight"]))
        found = self.task.score(
            params, self._validation, vocabulary, self._schedule.eval_batch_size
        )
        return float(found.loss.mean())
