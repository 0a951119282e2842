"""The flow of tokens on the sphere (ODE (5) of Silvestre et al.), integrated for many starts.

In NumPy: at four tokens of five channels a call of torch costs more than what it computes.
``models.analysed_ssm.field`` is what it is tested against.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedscan.experiments.consensus.instances import AXIS
from fedscan.models.analysed_ssm import AnalysedLayer

# Late: the last part of the time. Reached: all tokens this near to an axis.
LATE_SHARE = 0.2
REACHED = 1e-4
# Nearer: by more than rounding moves what rests.
NEARER = 1e-6
# Rates are fitted where V is below this and above rounding.
FITTED = (1e-2, 1e-12)


class Path(NamedTuple):
    """A trajectory of many starts.

    Attributes:
        times: (steps + 1).
        distance: V_i = 1 - |z_i^a|, (steps + 1, starts, tokens), exact near the axis.
        q: own interaction of every token before each step, (steps, starts, tokens).
        quadratic: z_1^T K z_1 of the first token, (steps, starts).
        end: (starts, tokens, n).
    """

    times: np.ndarray
    distance: np.ndarray
    q: np.ndarray
    quadratic: np.ndarray
    end: np.ndarray


class Outcome(NamedTuple):
    """What became of the starts.

    Attributes:
        reached: (starts) all tokens are within 1e-4 of +-e^a at the end.
        shrinking: (starts) not reached, but the farthest token came nearer over the late part.
        late_supremum: largest |z_i^a| over the late part, (starts, tokens).
        rate: fitted decay rate of the slowest V_i, median over starts; NaN where none is fitted.
    """

    reached: np.ndarray
    shrinking: np.ndarray
    late_supremum: np.ndarray
    rate: float


class _Weights(NamedTuple):
    """A layer's arrays.

    Attributes:
        alpha: (n).
        b_delta: (n).
        maps: W_Delta, S_B and S_C side by side, (n, n + 2 m): one product for all.
        causal: 0 where j <= i and minus infinity elsewhere, (tokens i, tokens j, 1).
    """

    alpha: np.ndarray
    b_delta: np.ndarray
    maps: np.ndarray
    causal: np.ndarray


def integrate(
    start: np.ndarray, layers: Sequence[AnalysedLayer], silu: bool, horizon: float, step: float
) -> Path:
    """Integrate with the classical Runge-Kutta method, tokens put back on the sphere.

    Args:
        start: (starts, tokens, n) float64, of norm 1.
        layers: visited in turn, one unit of time each.
        silu: whether B and C pass a SiLU.
        horizon: time.
        step: of the integrator.

    Returns:
        The path.
    """
    weights = [_weights(layer, start.shape[1]) for layer in layers]
    steps = round(horizon / step)
    turn = (step * np.arange(steps) + 1e-9).astype(int) % len(layers)
    z = np.empty((steps + 1, *start.shape))
    z[0] = start
    with np.errstate(over="ignore", invalid="ignore"):  # a run that fails is recorded as such
        for index in range(steps):
            own, x = weights[turn[index]], z[index]
            k1 = _speed(x, own, silu)
            k2 = _speed(x + step / 2 * k1, own, silu)
            k3 = _speed(x + step / 2 * k2, own, silu)
            k4 = _speed(x + step * k3, own, silu)
            moved = x + step / 6 * (k1 + 2 * (k2 + k3) + k4)
            np.divide(moved, np.sqrt(_inner(moved, moved)), out=z[index + 1])
    q, quadratic = np.empty((steps, *start.shape[:2])), np.empty((steps, len(start)))
    for index, own in enumerate(weights):
        now = turn == index
        before = z[:-1][now]
        q[now] = _own_interaction(before, own, silu)
        quadratic[now] = _own_interaction(before[:, :, 0], own, False)
    return Path(step * np.arange(steps + 1), _distance(z), q, quadratic, z[-1])


def speed(z: np.ndarray, layer: AnalysedLayer, silu: bool) -> np.ndarray:
    """Return dz_i/dt, as ``models.analysed_ssm.field`` does.

    Args:
        z: tokens, (starts, tokens, n) float64.
        layer: weights.
        silu: whether B and C pass a SiLU.

    Returns:
        (starts, tokens, n).
    """
    return _speed(z, _weights(layer, z.shape[1]), silu)


def _weights(layer: AnalysedLayer, tokens: int) -> _Weights:
    alpha, W_delta, b_delta, S_B, S_C = (tensor.numpy() for tensor in layer)
    causal = np.triu(np.full((tokens, tokens), -np.inf), 1)[..., None]
    return _Weights(alpha, b_delta, np.concatenate([W_delta, S_B, S_C]).T.copy(), causal)


def _speed(z: np.ndarray, own: _Weights, silu: bool) -> np.ndarray:
    n = z.shape[-1]
    mapped = z @ own.maps
    steps = np.logaddexp(0, mapped[..., :n] + own.b_delta)
    B, C = _halves(mapped[..., n:], silu)
    total = own.alpha * steps.cumsum(axis=1)
    # Masked before the exponential: where j > i it could overflow.
    reached = np.exp(total[:, None] - total[:, :, None] + own.causal)
    weighted = (C @ B.transpose(0, 2, 1))[..., None] * reached
    r = (weighted * (steps * z)[:, None]).sum(axis=2)
    return np.asarray(r - _inner(r, z) * z)


def _own_interaction(z: np.ndarray, own: _Weights, silu: bool) -> np.ndarray:
    B, C = _halves(z @ own.maps[:, z.shape[-1] :], silu)
    return np.asarray(_inner(B, C)[..., 0])


def _halves(mapped: np.ndarray, silu: bool) -> tuple[np.ndarray, np.ndarray]:
    if silu:
        mapped = mapped / (1 + np.exp(-mapped))
    m = mapped.shape[-1] // 2
    return mapped[..., :m], mapped[..., m:]


def _inner(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("...n,...n->...", x, y)[..., None]


def _distance(z: np.ndarray) -> np.ndarray:
    """Return 1 - |z^a| without cancellation: the other components' squares over 1 + |z^a|."""
    height = np.abs(z[..., AXIS])
    apart = np.delete(z, AXIS, axis=-1)
    near = np.einsum("...n,...n->...", apart, apart)
    return np.asarray(near / (1 + height))


def outcome(path: Path) -> Outcome:
    """Return what became of the starts.

    Args:
        path: of the flow.

    Returns:
        The outcome.
    """
    farthest = path.distance.max(axis=-1)
    late = int((1 - LATE_SHARE) * (len(path.times) - 1))
    reached = farthest[-1] < REACHED
    shrinking = ~reached & (farthest[-1] < (1 - NEARER) * farthest[late])
    supremum = 1 - path.distance[late:].min(axis=0)
    rates = [
        rate
        for index in np.flatnonzero(reached)
        if (rate := _rate(path.times, farthest[:, index])) is not None
    ]
    return Outcome(reached, shrinking, supremum, float(np.median(rates)) if rates else np.nan)


def _rate(times: np.ndarray, values: np.ndarray) -> float | None:
    """Return the slope of -log V over its last decades above rounding."""
    below = np.flatnonzero(values < FITTED[0])
    if not len(below):
        return None
    rounding = np.flatnonzero(values < FITTED[1])
    last = int(rounding[0]) if len(rounding) else len(values)
    # The second half of what is left: the slowest mode alone.
    first = (int(below[0]) + last) // 2
    if last - first < 10:
        return None
    slope = np.polyfit(times[first:last], np.log(values[first:last]), 1)[0]
    return float(-slope)
