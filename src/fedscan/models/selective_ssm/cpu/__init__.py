"""The CPU kernel: compiled passes over one-hot sequences, a single thread, no autograd.

Every function takes flat parameters (see ``layout``) in float32 or float64, computes in that
dtype, and changes no argument. The first call for a shape and dtype compiles for a second or two.
"""

from typing import NamedTuple

import numpy as np

from fedscan.models.selective_ssm.cpu import gradient as _gradient
from fedscan.models.selective_ssm.cpu import sampling as _sampling
from fedscan.models.selective_ssm.cpu import sgd as _sgd
from fedscan.models.selective_ssm.cpu import tangent as _tangent
from fedscan.models.selective_ssm.layout import Shape
from fedscan.models.selective_ssm.stability import Margins, limits, softplus


class Predictions(NamedTuple):
    """How well a layer predicts a set of sequences."""

    losses: np.ndarray  # (sequences) float64, nats per position
    hits: np.ndarray  # (sequences) int64, positions predicted right
    peaks: np.ndarray  # (sequences) largest absolute logit or state entry; NaN if not finite


class Phase(NamedTuple):
    """A sequence of SGD steps; per step float64 arrays."""

    params: np.ndarray  # (parameters) after the last step
    losses: np.ndarray  # nats, before the step
    direction_norms: np.ndarray  # of the gradient with its proximal term
    displacements: np.ndarray  # distance from the start after the step
    projected: np.ndarray  # entries moved by the projection
    stable: np.ndarray  # bool, certificate of membership in S_{gamma,delta} after the step


def gradient(params: np.ndarray, tokens: np.ndarray, shape: Shape) -> tuple[float, np.ndarray]:
    """Return mean loss and gradient of a batch.

    Args:
        params: (parameters).
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.

    Returns:
        Loss in nats per position, gradient (parameters).

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``.
    """
    require(params, tokens, shape)
    found = np.empty_like(params)
    loss = _gradient.batch(shape)(params, tokens, found)
    return float(loss), found


def sequence_gradients(
    params: np.ndarray, tokens: np.ndarray, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and gradient of every sequence by itself.

    Args:
        params: (parameters).
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.

    Returns:
        Losses (sequences) float64, gradients (sequences, parameters).

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``.
    """
    require(params, tokens, shape)
    nats = np.empty(len(tokens))
    gradients = np.empty((len(tokens), shape.parameters), params.dtype)
    _gradient.sequences(shape)(params, tokens, nats, gradients)
    return nats, gradients


def losses(params: np.ndarray, tokens: np.ndarray, shape: Shape) -> np.ndarray:
    """Return the loss of every sequence.

    Args:
        params: (parameters).
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.

    Returns:
        (sequences) float64, nats per position.

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``.
    """
    require(params, tokens, shape)
    found = np.empty(len(tokens))
    _gradient.losses(shape)(params, tokens, found)
    return found


def hessian_products(
    params: np.ndarray, directions: np.ndarray, tokens: np.ndarray, shape: Shape
) -> np.ndarray:
    """Return, per sequence, the Hessian of its loss times its direction; exact.

    Args:
        params: (parameters).
        directions: (sequences, parameters), dtype of ``params``.
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.

    Returns:
        (sequences, parameters).

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``.
    """
    require(params, tokens, shape)
    if directions.shape != (len(tokens), shape.parameters):
        wanted = (len(tokens), shape.parameters)
        raise ValueError(f"directions: expected shape {wanted}, found {directions.shape}")
    found = np.empty_like(directions)
    _tangent.products(shape)(params, tokens, np.ascontiguousarray(directions), found)
    return found


def predict(
    params: np.ndarray, tokens: np.ndarray, shape: Shape, temperature: float = 1.0
) -> Predictions:
    """Return how well the layer predicts next tokens from h_0 = 0.

    Args:
        params: (parameters).
        tokens: (sequences, length) uint8, length at least 2.
        shape: sizes of the layer.
        temperature: logits are divided by it.

    Returns:
        See ``Predictions``.

    Raises:
        ValueError: if sizes or tokens do not fit ``shape``.
    """
    require(params, tokens, shape)
    found = Predictions(
        np.empty(len(tokens)), np.empty(len(tokens), np.int64), np.empty(len(tokens))
    )
    _gradient.predictions(shape)(params, tokens, temperature, *found)
    return found


def sample(
    params: np.ndarray, uniforms: np.ndarray, shape: Shape, temperature: float
) -> np.ndarray:
    """Draw sequences from the layer: x_1 uniform, x_{t+1} ~ softmax(y_t / temperature).

    Args:
        params: (parameters).
        uniforms: (sequences, length) in [0, 1), which decide the draws.
        shape: sizes of the layer.
        temperature: of the softmax.

    Returns:
        (sequences, length) uint8.

    Raises:
        ValueError: if the parameters do not fit ``shape``.
    """
    tokens = np.zeros((len(uniforms), max(2, uniforms.shape[1])), np.uint8)
    require(params, tokens, shape)
    drawn = np.empty(uniforms.shape, np.uint8)
    _sampling.sampler(shape)(params, temperature, uniforms, drawn)
    return drawn


def local_steps(
    params: np.ndarray,
    tokens: np.ndarray,
    batches: np.ndarray,
    shape: Shape,
    margins: Margins,
    learning_rate: float,
    mu: float = 0.0,
) -> Phase:
    """Take projected SGD steps (paper, Appendix G.3), optionally with a proximal term.

    Every step moves along the batch gradient plus mu (W - W_start), then projects onto
    S_{gamma+eps,delta+eps}.

    Args:
        params: (parameters) start, and anchor of the proximal term.
        tokens: (sequences, length) uint8, length at least 2.
        batches: (steps, batch) int64 indices of sequences.
        shape: sizes of the layer.
        margins: configured gamma and delta.
        learning_rate: step size.
        mu: coefficient of the proximal term; 0 is plain SGD.

    Returns:
        New parameters in the dtype of ``params``, with what was measured.

    Raises:
        ValueError: if sizes, tokens or indices do not fit.
    """
    require(params, tokens, shape)
    if batches.size and not 0 <= int(batches.min()) <= int(batches.max()) < len(tokens):
        raise ValueError(
            f"batches: indices from {batches.min()} to {batches.max()}; there are"
            f" {len(tokens)} sequences"
        )
    kind = params.dtype.type
    ceiling, floor = limits(margins, params.dtype)
    moved, record = params.copy(), np.empty((len(batches), 6))
    run = _sgd.local_steps(shape)
    run(moved, tokens, batches, kind(learning_rate), floor, ceiling, kind(mu), record)
    stable = (softplus(record[:, 4]) >= margins.delta) & (-record[:, 5] >= margins.gamma)
    return Phase(moved, *record[:, :3].T.copy(), record[:, 3].astype(np.int64), stable)


def require(params: np.ndarray, tokens: np.ndarray, shape: Shape) -> None:
    """Check what every kernel is given.

    Args:
        params: (parameters) float32 or float64.
        tokens: (sequences, length) uint8, contiguous, length at least 2, below D.
        shape: sizes of the layer.

    Raises:
        ValueError: if something does not fit; says what would.
    """
    if params.shape != (shape.parameters,) or params.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"params: expected {shape.parameters} float32 or float64 numbers for D="
            f"{shape.d_input}, N={shape.d_state}, found {params.dtype} of shape {params.shape}"
        )
    if tokens.dtype != np.uint8 or tokens.ndim != 2 or not tokens.flags.c_contiguous:
        raise ValueError(
            f"tokens: expected contiguous uint8 (sequences, length), found {tokens.dtype} of shape"
            f" {tokens.shape}"
        )
    if tokens.shape[1] < 2:
        raise ValueError(f"tokens: sequences of length {tokens.shape[1]} have nothing to predict")
    if tokens.size and int(tokens.max()) >= shape.d_input:
        raise ValueError(
            f"tokens: found {tokens.max()}, the layer has inputs 0..{shape.d_input - 1}"
        )
