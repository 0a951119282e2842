"""TIES-Merging (Yadav et al. 2023): trim, elect signs, average what agrees.

Trimming keeps the share d of largest magnitudes of a whole task vector, not of each tensor. The
threshold is found without holding a task vector: the bits of non-negative float32 numbers are
ordered like the numbers, so two passes of counting, upper then lower 16 bits, find it exactly.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from fedscan.operators.direction import Base, Direction, Expert, task_vector

HALF, BINS = 16, 1 << 16


def ties(base: Base, experts: Sequence[Expert], density: float) -> Direction:
    """Return the mean of the trimmed entries that agree with the elected sign.

    An entry's elected sign is that of the sum of the trimmed entries; entries that are zero after
    trimming have no vote and are not averaged over. Where the sum is zero nothing changes.

    Args:
        base: theta_0.
        experts: theta_m.
        density: share d of entries kept per task vector, in (0, 1].

    Returns:
        The direction. A tensor is read from every expert twice, so that one is held at a time.

    Raises:
        ValueError: if there is no expert or the density is outside (0, 1].
    """
    if not experts:
        raise ValueError("ties needs at least one expert")
    thresholds = [threshold(base, expert, density) for expert in experts]

    def stream() -> Iterator[tuple[str, Tensor]]:
        for name in base:
            pairs = list(zip(experts, thresholds, strict=True))
            total = torch.zeros_like(base[name], dtype=torch.float64)
            for expert, least in pairs:
                total += _trimmed(base, expert, name, least)
            elected = total.sign()
            total.zero_()
            count = torch.zeros_like(total, dtype=torch.int32)
            for expert, least in pairs:
                kept = _trimmed(base, expert, name, least)
                agrees = (kept.sign() == elected) & (kept != 0)
                total += kept.masked_fill_(~agrees, 0.0)
                count += agrees
            yield name, (total / count.clamp_(min=1)).to(kept.dtype)

    return stream


def threshold(base: Base, expert: Expert, density: float) -> float:
    """Return the smallest magnitude that trimming keeps.

    Args:
        base: theta_0.
        expert: theta_m.
        density: share d of entries kept, in (0, 1].

    Returns:
        The k-th largest magnitude of T_m in float32, k = floor(d n) but at least 1; entries equal
        to it are all kept.

    Raises:
        ValueError: if the density is outside (0, 1].
    """
    if not 0 < density <= 1:
        raise ValueError(f"ties: density is {density}; expected a share in (0, 1]")
    entries = sum(tensor.numel() for tensor in base.values())
    # As written: 0.29 of 100 is 29, which the product of doubles misses.
    wanted = max(int(Fraction(str(density)) * entries), 1)
    upper = torch.zeros(BINS, dtype=torch.int64)
    for name in base:
        upper += _count(_bits(base, expert, name) >> HALF)
    top, wanted = _place(upper, wanted)
    lower = torch.zeros(BINS, dtype=torch.int64)
    for name in base:
        bits = _bits(base, expert, name)
        lower += _count(bits[(bits >> HALF) == top] & (BINS - 1))
    low, _ = _place(lower, wanted)
    return float(torch.tensor((top << HALF) | low, dtype=torch.int32).view(torch.float32))


def _trimmed(base: Base, expert: Expert, name: str, least: float) -> Tensor:
    vector = task_vector(base, expert, name)
    return vector.masked_fill_(vector.to(torch.float32).abs() < least, 0.0)


def _bits(base: Base, expert: Expert, name: str) -> Tensor:
    """Return the bits of the magnitudes, (entries) int32; ordered as the magnitudes are."""
    vector = task_vector(base, expert, name).to(torch.float32)
    return vector.abs().flatten().view(torch.int32)


def _count(values: Tensor) -> Tensor:
    return torch.bincount(values, minlength=BINS).cpu()


def _place(counts: Tensor, wanted: int) -> tuple[int, int]:
    """Return the bin of the ``wanted``-th largest value, and its rank within the bin."""
    above = counts.flip(0).cumsum(0)
    index = int(torch.searchsorted(above, torch.tensor(wanted)))
    before = int(above[index - 1]) if index else 0
    return BINS - 1 - index, wanted - before
