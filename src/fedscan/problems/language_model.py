"""Language modelling on client token sets: the paper's practical study (Appendix G.4)."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from fedscan.data.sampling import batch_indices
from fedscan.measure.stability import Decay, block_spectral_norms, realised_decay
from fedscan.models.kernels import KERNELS
from fedscan.models.language_model import LanguageModel
from fedscan.params.algebra import Params
from fedscan.problems.adamw import AdamW

AUTOCAST = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
INITIAL_LOSS_SCALE = 65536.0


class Schedule(NamedTuple):
    """Local optimisation of one run; units are sequences, steps and gradient norms."""

    local_steps: int
    batch_size: int
    lr: float
    adam_betas: tuple[float, float]
    adam_eps: float
    weight_decay: float
    clip_norm: float
    eval_batch_size: int


PROBE_SEQUENCES = 4


class MixerStability(NamedTuple):
    """What theory would look at in one Mamba2 mixer, measured on a fixed probe batch."""

    layer: int
    decay: list[Decay]
    spectral_norms: dict[str, float]


class _StepSizes(torch.nn.Module):
    """``model.step_sizes`` as a forward pass, so that parameters can be substituted."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> dict[int, Tensor]:
        return self.model.step_sizes(ids)


class LanguageModelProblem:
    """A language model and the token sets of K clients."""

    def __init__(
        self,
        model: LanguageModel,
        train: Sequence[np.ndarray],
        validation: np.ndarray,
        schedule: Schedule,
        seed: int,
        precision: str,
        device: str,
        kernels: str = "torch",
    ) -> None:
        """Bind model and data.

        Args:
            model: holds the initial values; its parameters are never changed.
            train: one (sequences, length) uint16 array per client.
            validation: union of the clients' validation sets, (sequences, length) uint16.
            schedule: local optimisation.
            seed: root seed of the batches.
            precision: ``float32``, ``bfloat16`` or ``float16`` autocast.
            device: torch device.
            kernels: who computes the loss, a key of ``models.kernels.KERNELS``.
        """
        self.model = model.to(device)
        self._loss = KERNELS[kernels](self.model)
        self._step_sizes = _StepSizes(self.model)
        self._train, self._validation = train, validation
        self._schedule, self._seed, self._device = schedule, seed, device
        self._autocast = AUTOCAST[precision]
        self.weights = [1.0 / len(train)] * len(train)
        self.local_steps = schedule.local_steps
        self.learning_rate = schedule.lr
        self.clip_norm = schedule.clip_norm
        self.loss_scale = INITIAL_LOSS_SCALE if precision == "float16" else None

    def initial_params(self) -> Params:
        """Return a copy of the model's values; tied weights appear once."""
        return {name: tensor.detach().clone() for name, tensor in self.model.named_parameters()}

    def batches(self, client: int, round_index: int) -> Iterator[Tensor]:
        """Yield the client's batches of a round, (batch, length) int64."""
        schedule, sequences = self._schedule, self._train[client]
        rows = batch_indices(
            self._seed,
            client,
            round_index,
            len(sequences),
            schedule.local_steps,
            schedule.batch_size,
        )
        # One copy to the device for the whole phase.
        yield from self._ids(sequences[rows])

    def gradient(self, params: Params, batch: Any, scale: float | Tensor) -> tuple[Tensor, Params]:
        """Return mean cross-entropy and its gradient in float32."""
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in params.items()}
        # A tensor is not asked for its value, which a GPU would have to be waited for.
        plain = isinstance(scale, float) and scale == 1.0
        with torch.enable_grad():
            with self._precision():
                loss = self._call(self._loss, leaves, batch)
            # Outside autocast: backward reuses the forward's precisions by itself.
            scaled = loss if plain else loss * scale
        gradients = torch.autograd.grad(scaled, list(leaves.values()))
        if not plain:
            gradients = torch._foreach_div(gradients, scale)
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    def optimizer(self, tensors: Sequence[Tensor]) -> AdamW:
        """Return a fresh AdamW."""
        s = self._schedule
        betas = (s.adam_betas[0], s.adam_betas[1])
        return AdamW(tensors, s.lr, betas, s.adam_eps, s.weight_decay)

    @torch.no_grad()
    def evaluate(self, params: Params) -> float:
        """Return the mean cross-entropy over all validation tokens, in nats."""
        losses, counts, size = [], [], self._schedule.eval_batch_size
        for start in range(0, len(self._validation), size):
            rows = self._validation[start : start + size]
            with self._precision():
                losses.append(self._call(self._loss, params, self._ids(rows)))
            counts.append(len(rows))
        # Read at the end: a GPU computes all batches without a pause.
        means = torch.stack(losses).tolist()
        total = 0.0
        for mean, count in zip(means, counts, strict=True):
            total += mean * count
        return total / len(self._validation)

    @torch.no_grad()
    def stability(self, params: Params) -> list[MixerStability]:
        """Measure every Mamba2 mixer on a fixed probe batch, in float32.

        The probe is spread evenly over the validation set, so that it has all clients' domains.
        """
        count = min(PROBE_SEQUENCES, len(self._validation))
        rows = np.arange(count) * len(self._validation) // count
        step_sizes = self._call(self._step_sizes, params, self._ids(self._validation[rows]))
        found = []
        for layer, dt in step_sizes.items():
            prefix = f"backbone.layers.{layer}.mixer."
            decay = realised_decay(dt, -torch.exp(params[f"{prefix}A_log"]))
            blocks = self.model.backbone.layers[layer].mixer.projection_blocks()
            norms = block_spectral_norms(params[f"{prefix}in_proj.weight"], blocks)
            found.append(MixerStability(layer, decay, norms))
        return found

    def _call(self, method: torch.nn.Module, params: Params, ids: Tensor) -> Any:
        named = {f"model.{name}": tensor for name, tensor in params.items()}
        return functional_call(method, named, (ids,))

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device, dtype=self._autocast)

    def _ids(self, rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows.astype(np.int64)).to(self._device)
