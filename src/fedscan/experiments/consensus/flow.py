"""The flow of tokens on the sphere (ODE (5) of Silvestre et al.), integrated for many starts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedscan.experiments.consensus.instances import AXIS
from fedscan.models.analysed_ssm import AnalysedLayer, field, own_interaction

# Late: the last part of the time. Reached: all tokens this near to an axis.
LATE_SHARE = 0.2
REACHED = 1e-4
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


@torch.inference_mode()
def integrate(
    start: Tensor, layers: Sequence[AnalysedLayer], silu: bool, horizon: float, step: float
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
    z = start.clone()
    steps = round(horizon / step)
    distance, q, quadratic = [_distance(z)], [], []
    for index in range(steps):
        layer = layers[int(index * step + 1e-9) % len(layers)]
        q.append(own_interaction(z, layer, silu).numpy())
        quadratic.append(own_interaction(z[:, :1], layer, False)[:, 0].numpy())
        k1 = field(z, layer, silu)
        k2 = field(z + step / 2 * k1, layer, silu)
        k3 = field(z + step / 2 * k2, layer, silu)
        k4 = field(z + step * k3, layer, silu)
        z = z + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        z = z / torch.linalg.vector_norm(z, dim=-1, keepdim=True)
        distance.append(_distance(z))
    times = step * np.arange(steps + 1)
    return Path(times, np.stack(distance), np.stack(q), np.stack(quadratic), z.numpy())


def _distance(z: Tensor) -> np.ndarray:
    """Return 1 - |z^a| without cancellation: the other components' squares over 1 + |z^a|."""
    height = z[..., AXIS].abs()
    others = (z * z).sum(-1) - height * height
    apart = z.clone()
    apart[..., AXIS] = 0
    near = (apart * apart).sum(-1)
    # Where the axis' own component is small, either form is exact.
    return torch.where(height > 0.5, near, others).div(1 + height).numpy()


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
    shrinking = ~reached & (farthest[-1] < farthest[late])
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
