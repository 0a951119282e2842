"""Stability quantities of Mamba2 mixers: realised decay and norms of the projections' blocks."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Decay(NamedTuple):
    """Realised decay exp(A dt) of one head over a probe batch; max is an empirical rho."""

    minimum: float
    median: float
    maximum: float


def realised_decay(dt: Tensor, A: Tensor) -> list[Decay]:
    """Return the realised decay per head (paper, Section 3, for Mamba2's scalar A per head).

    Args:
        dt: step sizes on a probe batch, (batch, length, heads).
        A: decay rates, negative, (heads).

    Returns:
        One entry per head; the median is the lower one of an even number of values.
    """
    decay = torch.exp(dt.double() * A.double()).flatten(0, -2)
    columns = zip(decay.amin(0), decay.median(0).values, decay.amax(0), strict=True)
    return [Decay(float(low), float(middle), float(high)) for low, middle, high in columns]


def block_spectral_norms(
    projection: Tensor, blocks: Mapping[str, tuple[int, int]]
) -> dict[str, float]:
    """Return the spectral norms of blocks of rows of a projection.

    Args:
        projection: (rows, columns).
        blocks: name -> first row and number of rows.

    Returns:
        Name -> largest singular value, from the smaller Gram matrix in float64.
    """
    norms = {}
    for name, (first, count) in blocks.items():
        block = projection.narrow(0, first, count).double()
        gram = block @ block.T if block.shape[0] <= block.shape[1] else block.T @ block
        norms[name] = float(torch.linalg.eigvalsh(gram)[-1].clamp(min=0).sqrt())
    return norms
