"""What a layer's weights say by themselves: the spectrum of sym(S_BC), and its largest head."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedscan.experiments.consensus.variants import Subject
from fedscan.models.depth_iteration import Form, MixerLayer, Update, in_turn, trajectory

# An eigenvalue counts as positive above this share of the largest magnitude.
ROUNDING = 1e-10


@torch.inference_mode()
def layer_rows(subject: Subject, ids: np.ndarray) -> list[dict[str, Any]]:
    """Return a row per layer of a model.

    Args:
        subject: the model.
        ids: token ids, (draws, tokens), on which step sizes are measured.

    Returns:
        Rows of table ``consensus_layers``.
    """
    steps = _step_sizes(subject, ids)
    headdim = subject.shape.headdim
    rows = []
    for index, layer in enumerate(subject.layers):
        values = symmetric_spectrum(*maps(layer), layer.groups)
        largest = float(np.abs(values).max())
        sizes = np.sort(steps[index])[::-1]
        rows.append(
            {
                "layer": index,
                "trace": float(values.sum()),
                "smallest": float(values[0]),
                "largest": float(values[-1]),
                "positive_share": float((values > ROUNDING * largest).mean()),
                "top_head": int(steps[index].argmax()),
                "head_gap": float(sizes[0] / sizes[1]) if len(sizes) > 1 else None,
                "undefined": undefined(values, headdim),
            }
        )
    return rows


def maps(layer: MixerLayer) -> tuple[np.ndarray, np.ndarray]:
    """Return S_B and S_C, the norm's scale included.

    Args:
        layer: weights.

    Returns:
        Each (groups d_state, n) float64; the groups' rows one after the other.
    """
    inner, state = len(layer.gated_norm), layer.groups * layer.d_state
    rows = layer.selective.double().cpu().numpy() * layer.norm.double().cpu().numpy()
    return rows[inner : inner + state], rows[inner + state : inner + 2 * state]


def symmetric_spectrum(S_B: np.ndarray, S_C: np.ndarray, groups: int) -> np.ndarray:
    """Return the eigenvalues of the symmetric part of S_BC = S_C^T S_B, mean over groups.

    Args:
        S_B: (rows, n).
        S_C: (rows, n).
        groups: the rows belong to.

    Returns:
        (n) ascending.
    """
    rows, n = S_B.shape
    if 2 * rows >= n:
        product = S_C.T @ S_B / groups
        return np.linalg.eigvalsh((product + product.T) / 2)
    # Of rank 2 rows at most: in an orthonormal basis of the rows' span it is that small.
    triangle = np.linalg.qr(np.concatenate([S_C, S_B]).T, mode="r")
    product = triangle[:, :rows] @ triangle[:, rows:].T / groups
    inside = np.linalg.eigvalsh((product + product.T) / 2)
    return np.sort(np.concatenate([inside, np.zeros(n - 2 * rows)]))


def undefined(spectrum: np.ndarray, headdim: int) -> str | None:
    """Say why the theory's constants have no value for a layer.

    Args:
        spectrum: eigenvalues of sym(S_BC), ascending.
        headdim: channels that share step sizes and decays.

    Returns:
        Reasons, or None.
    """
    reasons = []
    if headdim > 1:
        reasons.append(f"gamma = 0: {headdim} channels of a head share their decays")
    if spectrum[0] <= ROUNDING * np.abs(spectrum).max():
        reasons.append("c_star: sym(S_BC) has an eigenvalue that is not positive")
    return "; ".join(reasons) or None


def _step_sizes(subject: Subject, ids: np.ndarray) -> Sequence[np.ndarray]:
    """Return each layer's mean step size per head, in the model's own pass."""
    start: Tensor = subject.embedding[torch.as_tensor(ids)]
    depth = len(subject.layers)
    found = []
    for position in trajectory(start, in_turn(subject.layers, Form()), depth, Update()):
        if position.applied is not None and position.applied.step_sizes is not None:
            found.append(position.applied.step_sizes.double().mean(0).cpu().numpy())
    return found
