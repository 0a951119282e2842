"""Quadratic clients with closed-form federated solutions: the test bench of the algorithms."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedscan.params.algebra import Params


class QuadraticProblem:
    """Client k minimises (w - b_k)^T A_k (w - b_k) / 2 by gradient descent, exactly."""

    def __init__(
        self,
        matrices: Sequence[Tensor],
        optima: Sequence[Tensor],
        local_steps: int,
        learning_rate: float,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Bind the clients.

        Args:
            matrices: A_k, (dimension, dimension), symmetric positive definite, float64.
            optima: b_k, (dimension) float64.
            local_steps: steps E.
            learning_rate: step size.
            weights: p_k; None for equal ones.
        """
        self._matrices, self._optima = list(matrices), list(optima)
        self.local_steps, self.learning_rate = local_steps, learning_rate
        self.weights = list(weights or [1 / len(optima)] * len(optima))
        self.clip_norm: float | None = None
        self.loss_scale: float | None = None

    def initial_params(self) -> Params:
        """Return w = 0."""
        return {"w": torch.zeros_like(self._optima[0])}

    def batches(self, client: int, round_index: int) -> list[int]:
        """Return the client's index once per step: every step sees the whole objective."""
        return [client] * self.local_steps

    def gradient(self, params: Params, batch: Any, scale: float | Tensor) -> tuple[Tensor, Params]:
        """Return value and gradient of client ``batch``."""
        offset = params["w"] - self._optima[batch]
        slope = self._matrices[batch] @ offset
        return offset @ slope / 2, {"w": slope}

    def optimizer(self, tensors: Sequence[Tensor]) -> torch.optim.SGD:
        """Return plain gradient descent."""
        return torch.optim.SGD(tensors, lr=self.learning_rate)

    def evaluate(self, params: Params) -> float:
        """Return the weighted mean objective."""
        values = (self.gradient(params, k, 1.0)[0] for k in range(len(self._optima)))
        return float(sum(p * v for p, v in zip(self.weights, values, strict=True)))
