"""Teachers: how one is drawn and how it writes sequences (paper, Appendix G.1 and Table 3)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import Blocks, Shape, flat
from fedscan.models.selective_ssm.stability import Margins, softplus

WEIGHT_SCALE = 0.75
TRANSITION_SPREAD = 0.25
DELTA_DIGITS = 1e5
# Searched in this order, for every teacher seed in turn.
TEACHER_SEEDS = (0, 1, 2)
GAINS_AND_TEMPERATURES = (
    *((gain, temperature) for gain in (1, 0.5, 0.25, 0.15, 0.1, 0.05) for temperature in (0.7, 1)),
    (0.03, 1),
)
SAMPLING_SEEDS = {"train": 1_000, "test": 1_001_003}


class Teacher(NamedTuple):
    """A frozen layer used as a generative model."""

    shape: Shape
    rho: float
    seed: int
    gain: float
    temperature: float
    margins: Margins
    params: np.ndarray  # (parameters) float32


def candidates(shape: Shape, rho: float) -> Iterator[Teacher]:
    """Yield the candidates for one configuration in the order of the search.

    Args:
        shape: sizes of the layer.
        rho: stability limit.

    Yields:
        Teachers; the same seed gives the same weights, scaled by the gain.
    """
    for seed in TEACHER_SEEDS:
        for gain, temperature in GAINS_AND_TEMPERATURES:
            yield draw(shape, rho, seed, gain, temperature)


def draw(shape: Shape, rho: float, seed: int, gain: float, temperature: float) -> Teacher:
    """Draw a teacher whose realised stability tracks ``rho``.

    W_B ~ N(0, (0.75 gain)^2), W_C and W_delta ~ N(0, 0.75^2), drawn in this order; delta is the
    smallest step over all inputs, rounded down to five decimals; gamma = -log(rho) / delta;
    A_n = -gamma (1 + 0.25 |z_n|).

    Args:
        shape: sizes of the layer.
        rho: stability limit in (0, 1).
        seed: of the draws.
        gain: factor of W_B.
        temperature: of the softmax that makes tokens of logits.

    Returns:
        The teacher, float32.
    """
    d, n = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> np.ndarray:
        return torch.randn(size, generator=generator, dtype=torch.float32).numpy()

    w_b = normal(n, d) * np.float32(WEIGHT_SCALE * gain)
    w_c = normal(n, d) * np.float32(WEIGHT_SCALE)
    w_delta = normal(d, d) * np.float32(WEIGHT_SCALE)
    z = normal(n).astype(np.float64)
    smallest = float(softplus(w_delta.astype(np.float64)).min())
    delta = float(np.floor(DELTA_DIGITS * smallest) / DELTA_DIGITS)
    gamma = float(-np.log(rho) / delta)
    a = (-gamma * (1 + TRANSITION_SPREAD * np.abs(z))).astype(np.float32)
    params = flat(Blocks(w_delta, w_b, w_c, a))
    return Teacher(shape, rho, seed, gain, temperature, Margins(gamma, delta), params)


def write(teacher: Teacher, split: str, count: int, burn_in: int, length: int) -> np.ndarray:
    """Sample sequences; the state starts at zero before the burn-in.

    Args:
        teacher: the generative model.
        split: 'train' or 'test'; each has its own fixed sampling seed.
        count: number of sequences; fewer are the head of more.
        burn_in: tokens discarded at the start.
        length: tokens kept.

    Returns:
        (count, length) uint8.
    """
    generator = torch.Generator().manual_seed(SAMPLING_SEEDS[split])
    size = (count, burn_in + length)
    uniforms = torch.rand(size, generator=generator, dtype=torch.float64).numpy()
    tokens = cpu.sample(teacher.params, uniforms, teacher.shape, teacher.temperature)
    return np.ascontiguousarray(tokens[:, burn_in:])
