"""Language model of Mamba2 and attention mixers with mamba_ssm's names, shapes and residual order.

``state_dict()`` has the names and shapes of ``mamba_ssm.MambaLMHeadModel``; checkpoints load in
either. The head is tied to the embedding; the residual stream stays in float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.architecture import Architecture
from fedscan.models.chunked_loss import chunked_loss
from fedscan.models.mamba2 import EPS, Mamba2
from fedscan.models.mixers import MIXERS

# Rows of logits that exist at one time; the automatic choice of 16 is three times slower.
HEAD_ROWS = 1024


class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a scale."""

    def __init__(self, width: int) -> None:
        """Create the scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis, in the dtype of the scale.

        Args:
            x: (..., width).

        Returns:
            The same shape.
        """
        return F.rms_norm(x.to(self.weight.dtype), (x.shape[-1],), self.weight, EPS)


class Block(nn.Module):
    """Pre-norm residual block around one mixer."""

    def __init__(self, shape: Architecture, layer: int) -> None:
        """Create the norm and the mixer of the layer's kind."""
        super().__init__()
        self.norm = RMSNorm(shape.d_model)
        self.mixer = MIXERS[shape.mixers[layer]].make(shape)

    def forward(self, residual: Tensor) -> Tensor:
        """Add the mixer's output to the residual stream.

        Args:
            residual: (batch, length, d_model), float32 or float64.

        Returns:
            The same shape and dtype.
        """
        return residual + self.mixer(self.norm(residual)).to(residual.dtype)


class Backbone(nn.Module):
    """Embedding, blocks and final norm."""

    def __init__(self, shape: Architecture) -> None:
        """Create all layers without values."""
        super().__init__()
        self.embedding = nn.Embedding(shape.padded_vocab_size, shape.d_model)
        self.layers = nn.ModuleList(Block(shape, layer) for layer in range(shape.depth))
        self.norm_f = RMSNorm(shape.d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the final hidden states.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            (batch, length, d_model).
        """
        residual = self.embedding(ids)
        for layer in self.layers:
            residual = layer(residual)
        return self.norm_f(residual)


class LanguageModel(nn.Module):
    """Causal language model; ``forward`` gives logits, ``loss`` never holds all of them."""

    def __init__(self, shape: Architecture) -> None:
        """Create the model without values; ``models.initialise.initialise`` draws them."""
        super().__init__()
        self.shape = shape
        self.backbone = Backbone(shape)
        self.lm_head = nn.Linear(shape.d_model, shape.padded_vocab_size, bias=False)
        self.lm_head.weight = self.backbone.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return next-token logits.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            (batch, length, padded vocabulary).
        """
        return self.lm_head(self.backbone(ids))

    def step_sizes(self, ids: Tensor) -> dict[int, Tensor]:
        """Return the step sizes dt of every Mamba2 mixer.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            Layer -> (batch, length, heads).
        """
        found = {}
        residual = self.backbone.embedding(ids)
        for index, layer in enumerate(self.backbone.layers):
            if isinstance(layer.mixer, Mamba2):
                found[index] = layer.mixer.projections(layer.norm(residual))[-1]
            residual = layer(residual)
        return found

    def loss(self, ids: Tensor) -> Tensor:
        """Return the mean cross-entropy of positions 1..S-1 against tokens 2..S.

        Args:
            ids: token ids, (batch, length) int64, length at least 2.

        Returns:
            Scalar in nats per token; logits exist for ``HEAD_ROWS`` positions at a time.
        """
        return head_loss(self.backbone(ids), self.lm_head.weight, ids)


def head_loss(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of positions 1..S-1 against tokens 2..S.

    Args:
        hidden: final hidden states, (batch, length, d_model).
        weight: head, (padded vocabulary, d_model).
        ids: token ids, (batch, length) int64, length at least 2.

    Returns:
        Scalar in nats per token; logits exist for ``HEAD_ROWS`` positions at a time (on a GPU
        for ``chunked_loss.ROWS``).
    """
    hidden, targets = hidden[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    if hidden.is_cuda:
        return chunked_loss(hidden, weight, targets)
    if hidden.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        # torch's fused operation multiplies bfloat16 no faster than float32.
        return chunked_loss(hidden, weight, targets, HEAD_ROWS)
    if len(targets) <= HEAD_ROWS:
        # One chunk: the plain operations, without the fused one's start-up (it loads the compiler).
        return F.cross_entropy(F.linear(hidden, weight), targets)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=HEAD_ROWS, chunking_method=None)
    return F.linear_cross_entropy(hidden, weight, targets, options=options)


def parameter_counts(shape: Architecture) -> dict[str, int]:
    """Count the parameters of a model without making it (paper, Tables 9 and 10).

    Args:
        shape: architecture.

    Returns:
        total, mixers (all of them), embedding (tied with the head), and attention_layers.
    """
    with torch.device("meta"):
        model = LanguageModel(shape)
    mixers = [layer.mixer for layer in model.backbone.layers]
    return {
        "total": sum(tensor.numel() for tensor in model.parameters()),
        "mixers": sum(tensor.numel() for mixer in mixers for tensor in mixer.parameters()),
        "embedding": model.backbone.embedding.weight.numel(),
        "attention_layers": len(shape.attention_layers),
    }
