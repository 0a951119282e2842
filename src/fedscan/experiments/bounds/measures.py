"""What is measured per sequence at a point; ``comparisons`` says what it is compared with."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedscan.measure import curvature
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import BLOCKS, Shape, block_norms
from fedscan.seeds import generator

# Seed of what is the same at all points: directions, first vectors.
FIXED = 0


class Sequences(NamedTuple):
    """Sequences at a point, with the gradients of their losses."""

    params: np.ndarray  # (parameters) float64
    tokens: np.ndarray  # (sequences, length) uint8
    shape: Shape
    losses: np.ndarray  # (sequences)
    gradients: np.ndarray  # (sequences, parameters)
    evaluation: Mapping[str, Any]  # step, iterations and tolerance

    def only(self, chosen: np.ndarray) -> "Sequences":
        """Return some of the sequences.

        Args:
            chosen: their indices.
        """
        return self._replace(
            tokens=np.ascontiguousarray(self.tokens[chosen]),
            losses=self.losses[chosen],
            gradients=self.gradients[chosen],
        )


Columns = Mapping[str, np.ndarray]


def gradient_norm(at: Sequences) -> Columns:
    """Return losses and gradient norms, by block and over all."""
    norms = block_norms(at.gradients, at.shape)
    by_block = {f"gradient_{block}": norms[:, i] for i, block in enumerate(BLOCKS)}
    return {"loss": at.losses, **by_block, "gradient_norm": np.sqrt(np.sum(norms**2, axis=1))}


def hessian_norm(at: Sequences) -> Columns:
    """Return spectral norms of the Hessians, from below, by power iteration."""
    size = (len(at.tokens), at.shape.parameters)
    starts = generator(FIXED, "power iteration").normal(size=size)

    def products(directions: np.ndarray, active: np.ndarray) -> np.ndarray:
        tokens = np.ascontiguousarray(at.tokens[active])
        return cpu.hessian_products(at.params, directions, tokens, at.shape)

    found = curvature.hessian_norms(
        products, starts, at.evaluation["iterations"], at.evaluation["tolerance"]
    )
    return {
        "hessian_norm": found.norms,
        "iterations": found.iterations,
        "converged": found.converged,
    }


def difference_ratio(at: Sequences) -> Columns:
    """Return the largest finite-difference ratio of three unit directions.

    Two directions are random; the third is the gradient, along which curvature is often largest.
    """
    params, shape, step = at.params, at.shape, at.evaluation["step"]
    ratios = []
    for direction in generator(FIXED, "directions").normal(size=(2, shape.parameters)):
        moved = params + step * direction / np.linalg.norm(direction)
        change = cpu.sequence_gradients(moved, at.tokens, shape)[1] - at.gradients
        ratios.append(np.linalg.norm(change, axis=1) / step)
    own = np.zeros(len(at.tokens))
    for i, gradient in enumerate(at.gradients):
        length = np.linalg.norm(gradient)
        if length > 0:
            moved = params + step * gradient / length
            change = cpu.sequence_gradients(moved, at.tokens[i : i + 1], shape)[1][0] - gradient
            own[i] = np.linalg.norm(change) / step
    return {"difference_ratio": np.maximum.reduce([*ratios, own])}


# Name of the quantity -> its function.
MEASURES: dict[str, Callable[[Sequences], Columns]] = {
    "gradient_norm": gradient_norm,
    "hessian_norm": hessian_norm,
    "difference_ratio": difference_ratio,
}
