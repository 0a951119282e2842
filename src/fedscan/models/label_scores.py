"""Log-probabilities of several continuations of each prompt, in a few forward passes.

A Mamba2 layer's past is a state and a few convolution inputs, so a prompt is read once and every
label continues from there. Other layers, attention among them, have no such state here: those
models read prompt and label together, one label at a time. Both give the same numbers up to
rounding.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.language_model import LanguageModel
from fedscan.models.mamba2 import Mamba2
from fedscan.models.mixers import MIXERS
from fedscan.models.ssd import ssd


class Past(NamedTuple):
    """What a Mamba2 layer remembers of a prompt.

    ``state`` is (batch, groups, heads per group, headdim, d_state), ``inputs`` the last
    d_conv - 1 inputs of the convolution, (batch, d_conv - 1, channels).
    """

    state: Tensor
    inputs: Tensor


class SharedPrompt(nn.Module):
    """Scores of all labels; each prompt is read once."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap a model without attention layers."""
        super().__init__()
        self.model = model

    def forward(self, prompts: Tensor, lengths: Tensor, labels: Tensor, sizes: Tensor) -> Tensor:
        """Return the mean log-probability per token of every label.

        Args:
            prompts: token ids, (batch, length) int64, padded on the right.
            lengths: tokens per prompt, (batch) int64.
            labels: token ids, (labels, tokens) int64, padded on the right.
            sizes: tokens per label, (labels) int64.

        Returns:
            (batch, labels), float32 or wider, nats per token.
        """
        residual, pasts = self.model.backbone.embedding(prompts), []
        for block in self.model.backbone.layers:
            change, past = _read(block.mixer, block.norm(residual), lengths)
            residual = residual + change.to(residual.dtype)
            pasts.append(past)
        rows = torch.arange(len(prompts), device=prompts.device)
        last = self.model.backbone.norm_f(residual[rows, lengths - 1])
        hidden = last[:, None, None].expand(-1, len(labels), -1, -1)
        if labels.shape[1] > 1:
            hidden = torch.cat([hidden, self._continue(pasts, labels)], dim=2)
        return _means(self.model, hidden, labels, sizes)

    def _continue(self, pasts: list[Past], labels: Tensor) -> Tensor:
        """Return hidden states after each label token but the last, (batch, labels, tokens, d)."""
        batch, count = len(pasts[0].state), len(labels)
        ids = labels[:, :-1].repeat(batch, 1)
        residual = self.model.backbone.embedding(ids)
        for block, past in zip(self.model.backbone.layers, pasts, strict=True):
            change = _go_on(block.mixer, block.norm(residual), past, count)
            residual = residual + change.to(residual.dtype)
        return self.model.backbone.norm_f(residual).unflatten(0, (batch, count))


class WholeSequences(nn.Module):
    """The same scores from prompt and label read together; any mixer."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap a model."""
        super().__init__()
        self.model = model

    def forward(self, prompts: Tensor, lengths: Tensor, labels: Tensor, sizes: Tensor) -> Tensor:
        """Return the same scores from the same arguments as ``SharedPrompt.forward``."""
        places = lengths[:, None] + torch.arange(labels.shape[1], device=labels.device)
        columns = []
        for label, size in zip(labels, sizes, strict=True):
            ids = F.pad(prompts, (0, len(label)))
            ids = ids.scatter(1, places, label.expand(len(ids), -1))
            hidden = self.model.backbone(ids)
            taken = hidden.gather(1, (places - 1)[..., None].expand(-1, -1, hidden.shape[-1]))
            columns.append(_means(self.model, taken[:, None], label[None], size[None]))
        return torch.cat(columns, dim=1)


def label_scores(model: LanguageModel) -> nn.Module:
    """Return the cheaper scorer that the model's layers allow.

    Args:
        model: any layout.

    Returns:
        A module with the model as its ``model``.
    """
    continues = all(MIXERS[kind].continues for kind in model.shape.mixers)
    return (SharedPrompt if continues else WholeSequences)(model)


def _means(model: LanguageModel, hidden: Tensor, labels: Tensor, sizes: Tensor) -> Tensor:
    """Average label tokens' log-probabilities; hidden (batch, labels, tokens, d_model)."""
    logits = model.lm_head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    index = labels.expand(len(hidden), -1, -1)[..., None]
    found = (logits.gather(-1, index) - logits.logsumexp(-1, keepdim=True)).squeeze(-1)
    counted = torch.arange(labels.shape[1], device=labels.device) < sizes[:, None]
    return found.masked_fill(~counted, 0.0).sum(-1) / sizes


def _read(mixer: Mamba2, hidden: Tensor, lengths: Tensor) -> tuple[Tensor, Past]:
    """Run a mixer over padded prompts and keep what continuing needs."""
    z, mixed, dt = mixer.inputs(hidden)
    x, B, C, dt = mixer.selective(mixed, dt)
    y = ssd(x, dt, mixer.decay_rates(), B, C, mixer.D, mixer.chunk_size)
    out = mixer.out_proj(mixer.norm(y.flatten(2), z))

    width = mixer.conv1d.kernel_size[0] - 1
    inside = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
    padded = F.pad(mixed, (0, 0, width, 0))
    places = lengths[:, None] + torch.arange(width, device=hidden.device)
    inputs = padded.gather(1, places[..., None].expand(-1, -1, mixed.shape[-1]))
    # A step of length zero neither decays nor feeds the state: padding leaves it alone.
    return out, Past(_state(mixer, x, dt * inside[..., None], B), inputs)


def _state(mixer: Mamba2, x: Tensor, dt: Tensor, B: Tensor) -> Tensor:
    """Return the state after the last step: sum over t of exp(decay after t) dt_t x_t B_t^T."""
    with torch.autocast(x.device.type, enabled=False):
        total = (dt * mixer.decay_rates()).cumsum(1)
        weight = (total[:, -1:] - total).exp() * dt
        groups = (mixer.ngroups, -1)
        u = (x.to(dt.dtype) * weight[..., None]).unflatten(2, groups)
        return torch.einsum("blgkp,blgn->bgkpn", u, B.to(dt.dtype))


def _go_on(mixer: Mamba2, hidden: Tensor, past: Past, labels: int) -> Tensor:
    """Run a mixer over every label of every prompt, (batch * labels, tokens, d_model)."""
    z, mixed, dt = mixer.inputs(hidden)
    before = past.inputs.to(mixed.dtype).repeat_interleave(labels, dim=0)
    x, B, C, dt = mixer.selective(mixed, dt, before)
    y = ssd(x, dt, mixer.decay_rates(), B, C, mixer.D, mixer.chunk_size)
    with torch.autocast(x.device.type, enabled=False):
        decayed = (dt * mixer.decay_rates()).cumsum(1).exp()
        # Labels of a prompt are tokens of one sequence here: the state is not copied per label.
        maps = C.to(dt.dtype).unflatten(0, (-1, labels)).flatten(1, 2)
        kept = torch.einsum("bmgn,bgkpn->bmgkp", maps, past.state)
        y = y + kept.flatten(2, 3).view_as(y) * decayed[..., None]
    return mixer.out_proj(mixer.norm(y.flatten(2), z))
