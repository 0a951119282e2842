"""Cross-entropy of a linear head that never holds all logits: for GPUs and autocast, and exact.

The gradient is formed in the forward pass, while a chunk's logits are there: nothing is computed
twice. Under autocast the products take narrow inputs, sums and results are float32.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows of logits that exist at one time: 206 MB of float16 for the paper's vocabulary.
ROWS = 2048
# Probabilities of a large vocabulary would be subnormal in float16; a power of two, exact.
FLOAT16_SCALE = 4096.0
# Entries of logits that a CPU exponentiates at one time: their wide copies stay in its caches.
CACHED = 2**20


def chunked_loss(hidden: Tensor, weight: Tensor, targets: Tensor, rows: int = ROWS) -> Tensor:
    """Return the mean cross-entropy of ``hidden weight^T`` against targets.

    Args:
        hidden: (positions, d_model); a narrow dtype is widened to float32 for sums.
        weight: head, (vocabulary, d_model), float32 or float64.
        targets: (positions) int64 below the vocabulary.
        rows: positions whose logits exist at one time.

    Returns:
        Scalar in nats per position, in the dtype of ``weight``; differentiable once.
    """
    kind = hidden.device.type
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    with torch.autocast(kind, enabled=False):
        return _ChunkedLoss.apply(hidden, weight, targets, rows, narrow)


class _ChunkedLoss(torch.autograd.Function):
    """Forward pass with both gradients; the backward pass only multiplies them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rows: int, narrow: torch.dtype
    ) -> Tensor:
        wide, count = weight.dtype, len(targets)
        ctx.dtype = hidden.dtype
        differentiate = any(ctx.needs_input_grad)
        scale = FLOAT16_SCALE if narrow == torch.float16 else 1.0
        head, inputs = weight.to(narrow), hidden.to(narrow)
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        slopes, head_slope = [], None
        for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
            logits = part @ head.T
            loss += nats_and_slopes(logits, wanted, scale, wide, differentiate)
            if differentiate:
                slopes.append(_product(logits, head, wide))
                update = _product(logits.T, part, wide)
                head_slope = update if head_slope is None else head_slope.add_(update)
        if head_slope is not None:
            factor = 1.0 / (scale * count)
            ctx.save_for_backward(torch.cat(slopes).mul_(factor), head_slope.mul_(factor))
        return loss / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden, head = ctx.saved_tensors
        # Narrowed after scaling: a float16 gradient without the loss scale would vanish.
        return (hidden * slope).to(ctx.dtype), head * slope, None, None, None


def nats_and_slopes(
    logits: Tensor, targets: Tensor, scale: float, wide: torch.dtype, differentiate: bool
) -> Tensor:
    """Return the summed cross-entropy, and replace logits by its derivative times ``scale``.

    Args:
        logits: (rows, vocabulary); overwritten if ``differentiate``.
        targets: (rows) int64.
        scale: factor of the derivative.
        wide: dtype of the sums, float32 or float64.
        differentiate: whether the derivative is wanted.

    Returns:
        Scalar of dtype ``wide``.
    """
    if logits.is_cuda:
        # Imported here: triton is there on GPU machines only.
        from fedscan.models import softmax_kernel

        return softmax_kernel.nats_and_slopes(logits, targets, scale, differentiate).sum()
    nats = torch.zeros((), dtype=wide)
    rows = max(1, CACHED // logits.shape[1])
    for part, wanted in zip(logits.split(rows), targets.split(rows), strict=True):
        peak = part.amax(1, keepdim=True).to(wide)
        powers = torch.sub(part, peak).exp_()
        total = powers.sum(1, keepdim=True)
        chosen = part.gather(1, wanted[:, None]) - peak - total.log()
        nats -= chosen.sum()
        if differentiate:
            torch.mul(powers, scale / total, out=part)
            # Not by subtracting from a rounded value: the target's probability may be near one.
            part.scatter_(1, wanted[:, None], (scale * torch.expm1(chosen)).to(part.dtype))
    return nats


def _product(a: Tensor, b: Tensor, wide: torch.dtype) -> Tensor:
    """Return a b in ``wide``, also if that is wider than the factors."""
    if a.is_cuda and a.dtype != wide:
        return torch.mm(a, b, out_dtype=wide)
    if a.dtype == torch.float16:
        # CPUs have no such product, and in float16 it would overflow; only tests come here.
        a, b = a.to(wide), b.to(wide)
    return (a @ b).to(wide)
