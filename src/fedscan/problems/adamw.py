"""AdamW by torch's own fused kernel, without the optimiser class.

The first call of any torch optimiser class imports torch's compiler, two seconds that every
training job would pay. The step is the same function the class calls.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw


class AdamW:
    """Decoupled weight decay (Loshchilov & Hutter 2019), fresh state."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        """Optimise ``tensors`` in place, along their ``grad``."""
        self._tensors = list(tensors)
        self._lr, self._betas, self._eps, self._weight_decay = lr, betas, eps, weight_decay
        self._first = [torch.zeros_like(tensor) for tensor in self._tensors]
        self._second = [torch.zeros_like(tensor) for tensor in self._tensors]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=tensor.device) for tensor in self._tensors
        ]

    @torch.no_grad()
    def reset(self) -> None:
        """Forget all steps, in place."""
        for tensor in (*self._first, *self._second, *self._steps):
            tensor.zero_()

    @torch.no_grad()
    def step(self, skip: Tensor | None = None) -> None:
        """Take one step along the gradients.

        Args:
            skip: scalar float32, 1.0 to leave everything as it is; None never skips.

        Raises:
            ValueError: if a tensor has no gradient.
        """
        # The fused step reads memory in order, whatever a gradient's strides say.
        gradients = [t.grad.contiguous() for t in self._tensors if t.grad is not None]
        if len(gradients) != len(self._tensors):
            raise ValueError("AdamW: every tensor needs a gradient")
        adamw(
            self._tensors,
            gradients,
            self._first,
            self._second,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=self._lr,
            weight_decay=self._weight_decay,
            eps=self._eps,
            maximize=False,
            found_inf=skip,
        )
