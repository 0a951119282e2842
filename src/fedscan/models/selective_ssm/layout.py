"""The layer's parameters as one flat vector, and as four blocks.

Order: W_delta (d_input x d_input), W_B and W_C (d_state x d_input), A (d_state), rows first. Norms,
directions and SGD steps act on the vector; formulas name the blocks.
"""

from typing import NamedTuple

import numpy as np

BLOCKS = ("W_delta", "W_B", "W_C", "A")


class Shape(NamedTuple):
    """Sizes of a layer: inputs D and states N."""

    d_input: int
    d_state: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Entries per block."""
        d, n = self
        return d * d, n * d, n * d, n

    @property
    def parameters(self) -> int:
        """Entries in all, D^2 + 2ND + N."""
        return sum(self.sizes)

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """First entry of each block."""
        d, n = self
        return 0, d * d, d * d + n * d, d * d + 2 * n * d


class Blocks(NamedTuple):
    """The blocks of one or more layers; leading axes are batch axes."""

    W_delta: np.ndarray  # (..., d_input, d_input)
    W_B: np.ndarray  # (..., d_state, d_input)
    W_C: np.ndarray  # (..., d_state, d_input)
    A: np.ndarray  # (..., d_state)


def blocks(vector: np.ndarray, shape: Shape) -> Blocks:
    """View flat parameters as blocks.

    Args:
        vector: (..., parameters).
        shape: sizes of the layer.

    Returns:
        Views of ``vector``.

    Raises:
        ValueError: if the last axis has another length.
    """
    if vector.shape[-1] != shape.parameters:
        raise ValueError(
            f"a layer with D={shape.d_input}, N={shape.d_state} has {shape.parameters} parameters,"
            f" found {vector.shape[-1]}"
        )
    d, n = shape
    _, b, c, a = shape.starts
    lead = vector.shape[:-1]
    return Blocks(
        vector[..., :b].reshape(*lead, d, d),
        vector[..., b:c].reshape(*lead, n, d),
        vector[..., c:a].reshape(*lead, n, d),
        vector[..., a:],
    )


def flat(layer: Blocks) -> np.ndarray:
    """Return blocks as one vector.

    Args:
        layer: blocks without batch axes.

    Returns:
        (parameters), the blocks' dtype.
    """
    return np.concatenate([block.ravel() for block in layer])


def block_norms(vectors: np.ndarray, shape: Shape) -> np.ndarray:
    """Return the Frobenius norm of every block.

    Args:
        vectors: (..., parameters).
        shape: sizes of the layer.

    Returns:
        (..., 4) in the order of ``BLOCKS``.
    """
    parts = np.split(vectors, shape.starts[1:], axis=-1)
    return np.stack([np.sqrt(np.sum(part * part, axis=-1)) for part in parts], axis=-1)
