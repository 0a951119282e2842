"""Classification by a language model without a head: labels are scored as continuations.

The score of a label is the mean log-probability of its tokens after the prompt; the highest wins
(paper, Appendix G.1). Fine-tuning minimises the cross-entropy of the right label's tokens alone.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedscan.models.label_scores import label_scores
from fedscan.models.language_model import LanguageModel
from fedscan.params.algebra import Params

AUTOCAST = {"float32": None, "bfloat16": torch.bfloat16}
# Any id does: what follows a sequence never reaches its own tokens.
PADDING = 0


class TaskExamples(NamedTuple):
    """Examples of one task: ids of prompts, index of the right label, ids of all labels."""

    prompts: Sequence[np.ndarray]
    targets: np.ndarray
    labels: Sequence[np.ndarray]


class Outcome(NamedTuple):
    """What scoring a task's examples gave; equal highest scores are ``ties``."""

    predictions: np.ndarray
    correct: int
    ties: int


class LabelLoss(nn.Module):
    """Mean cross-entropy of the label tokens of a batch."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap ``model``."""
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, counted: Tensor) -> Tensor:
        """Return the loss.

        Args:
            ids: prompts with their right labels, (batch, length) int64, padded on the right.
            counted: which tokens are a label's, (batch, length) bool.

        Returns:
            Scalar, nats per label token; all label tokens of the batch weigh the same.
        """
        # Logits exist for label tokens only: a few per sequence.
        hidden = self.model.backbone(ids)[:, :-1][counted[:, 1:]]
        logits = self.model.lm_head(hidden)
        return F.cross_entropy(
            logits.to(self.model.lm_head.weight.dtype), ids[:, 1:][counted[:, 1:]]
        )


class Classifier:
    """A model's shape bound to device and precision; parameters are given with every call."""

    def __init__(self, model: LanguageModel, precision: str, device: str) -> None:
        """Bind.

        Args:
            model: gives the computation; its own values are not used.
            precision: ``float32`` or ``bfloat16`` autocast of forward and backward passes.
            device: torch device.
        """
        model = model.to(device)
        self._loss, self._scores = LabelLoss(model), label_scores(model)
        self._device, self._autocast = device, AUTOCAST[precision]

    def place(self, params: Params) -> Params:
        """Return the parameters in float32 on the classifier's device."""
        return {name: tensor.to(self._device, torch.float32) for name, tensor in params.items()}

    def loss(self, params: Params, examples: TaskExamples, rows: Sequence[int]) -> Tensor:
        """Return the loss of some examples.

        Args:
            params: result of ``place``.
            examples: of one task.
            rows: indices of the examples.

        Returns:
            Scalar with its graph, if parameters ask for gradients.
        """
        ids, counted = self._batch(examples, rows)
        with self._precision():
            return self._call(self._loss, params, ids, counted)

    def gradient(
        self, params: Params, examples: TaskExamples, rows: Sequence[int]
    ) -> tuple[Tensor, Params]:
        """Return the loss of some examples and its gradient.

        Args:
            params: result of ``place``.
            examples: of one task.
            rows: indices of the examples.

        Returns:
            Loss, detached, and gradient in float32.
        """
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in params.items()}
        with torch.enable_grad():
            loss = self.loss(leaves, examples, rows)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    @torch.no_grad()
    def scores(self, params: Params, examples: TaskExamples, batch_size: int) -> np.ndarray:
        """Return every label's score of every example.

        Args:
            params: result of ``place``.
            examples: of one task.
            batch_size: prompts per forward pass; changes rounding only.

        Returns:
            (examples, labels) float64, nats per token.
        """
        labels, sizes = _padded(examples.labels)
        # Prompts of like length share a batch; the results go back into the examples' order.
        order = np.argsort([len(prompt) for prompt in examples.prompts], kind="stable")
        found = np.empty((len(order), len(labels)))
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            prompts, lengths = _padded([examples.prompts[row] for row in rows])
            moved = [t.to(self._device) for t in (prompts, lengths, labels, sizes)]
            with self._precision():
                scores = self._call(self._scores, params, *moved)
            found[rows] = scores.double().cpu().numpy()
        return found

    def _batch(self, examples: TaskExamples, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        chosen = [examples.labels[int(examples.targets[row])] for row in rows]
        prompts = [examples.prompts[row] for row in rows]
        ids, sizes = _padded([np.concatenate(pair) for pair in zip(prompts, chosen, strict=True)])
        starts = torch.tensor([len(prompt) for prompt in prompts])
        places = torch.arange(ids.shape[1])
        counted = (places >= starts[:, None]) & (places < sizes[:, None])
        return ids.to(self._device), counted.to(self._device)

    def _call(self, method: nn.Module, params: Params, *inputs: Tensor) -> Any:
        named = {f"model.{name}": tensor for name, tensor in params.items()}
        return functional_call(method, named, inputs)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device, dtype=self._autocast)


def outcome(scores: np.ndarray, targets: np.ndarray) -> Outcome:
    """Predict the label of the highest score; of equal ones, the first.

    Args:
        scores: (examples, labels).
        targets: right label per example.

    Returns:
        Predictions, how many are right, and how many examples had several highest scores.

    Raises:
        ArithmeticError: if a score is NaN: such a model predicts nothing.
    """
    if np.isnan(scores).any():
        raise ArithmeticError(f"{int(np.isnan(scores).any(axis=1).sum())} examples score NaN")
    predictions = scores.argmax(axis=1)
    shared = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return Outcome(predictions, int((predictions == targets).sum()), int(shared.sum()))


def _padded(sequences: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Return (sequences, longest) int64 padded on the right, and the lengths."""
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.full((len(sequences), int(sizes.max())), PADDING)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = torch.from_numpy(sequence.astype(np.int64))
    return ids, sizes
