"""Triton kernel of the head's loss: cross-entropy and its derivative in place, in two passes.

torch needs five passes over float32 copies of the logits. Checked in Triton's interpreter against
``chunked_loss.nats_and_slopes``, which computes the same without a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


def nats_and_slopes(logits: Tensor, targets: Tensor, scale: float, differentiate: bool) -> Tensor:
    """Return each row's cross-entropy, and replace logits by its derivative times ``scale``.

    Args:
        logits: (rows, vocabulary), contiguous; overwritten if ``differentiate``.
        targets: (rows) int64.
        scale: factor of the derivative.
        differentiate: whether the derivative is wanted.

    Returns:
        (rows) float32; float64 for logits in float64.

    Raises:
        ValueError: if rows are not contiguous.
    """
    if not logits.is_contiguous():
        raise ValueError(f"logits must be contiguous, found strides {logits.stride()}")
    # A padded vocabulary is a multiple of 8: the compiler then reads rows 16 bytes at a time.
    multiple = 8 if logits.shape[1] % 8 == 0 else 1
    double = logits.dtype == torch.float64
    wide = torch.float64 if double else torch.float32
    nats = torch.empty(len(logits), dtype=wide, device=logits.device)
    _row[(len(logits),)](
        logits, targets, nats, scale, logits.shape[1] // multiple, MULTIPLE=multiple,
        WRITE=differentiate, WIDE=tl.float64 if double else tl.float32, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return nats


@triton.jit
def _row(
    logits, targets, nats, scale, parts,
    MULTIPLE: tl.constexpr, WRITE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: sums of exponentials per lane, then over lanes; a second pass writes."""
    row = tl.program_id(0).to(tl.int64)
    columns = parts * MULTIPLE
    logits += row * columns
    target = tl.load(targets + row)
    # Before the reductions, whose barriers keep other warps from overwriting it.
    chosen = tl.load(logits + target).to(WIDE)
    lane = tl.arange(0, BLOCK)
    # Finite, so that lanes without entries give exp(0), not a NaN; their share is zero at the end.
    lowest = -1.0e30
    peaks = tl.full((BLOCK,), lowest, WIDE)
    totals = tl.zeros((BLOCK,), WIDE)
    for start in range(0, columns, BLOCK):
        column = start + lane
        z = tl.load(logits + column, mask=column < columns, other=0.0).to(WIDE)
        z = tl.where(column < columns, z, lowest)
        higher = tl.maximum(peaks, z)
        totals = totals * tl.exp(peaks - higher) + tl.exp(z - higher)
        peaks = higher
    peak = tl.max(peaks, axis=0)
    norm = peak + tl.log(tl.sum(totals * tl.exp(peaks - peak), axis=0))
    chosen -= norm
    tl.store(nats + row, -chosen)
    if WRITE:
        slope = scale * (tl.exp(chosen) - 1.0)
        for start in range(0, columns, BLOCK):
            column = start + lane
            inside = column < columns
            z = tl.load(logits + column, mask=inside, other=0.0).to(WIDE)
            value = tl.where(column == target, slope, scale * tl.exp(z - norm))
            tl.store(logits + column, value.to(logits.dtype.element_ty), mask=inside)
