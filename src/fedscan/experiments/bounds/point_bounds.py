"""Bounds at parameter points of one (D, N): theory evaluated for all points at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedscan.experiments.bounds.comparisons import COMPARISONS, Known, conditions
from fedscan.models.selective_ssm.layout import BLOCKS, Shape, blocks
from fedscan.models.selective_ssm.stability import Margins, softplus
from fedscan.theory.constants import configured, realised, spectral_norms
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.overflow import infinite
from fedscan.theory.smoothness import smoothness_bound
from fedscan.theory.variation import bound_variation

Columns = Mapping[str, Any]


class PointBounds(NamedTuple):
    """Bounds at points: arrays over points, or numbers of one.

    Attributes:
        facts: column of table ``points`` -> what the bounds are made of.
        values: column of a comparison's bound -> the bound.
        holds: column of a condition -> whether its bounds hold.
        overflow: intermediate quantities that are infinite at some point.
    """

    facts: Columns
    values: Columns
    holds: Columns
    overflow: tuple[str, ...]

    def at(self, index: int) -> "PointBounds":
        """Return the bounds of one point.

        Args:
            index: of the point.
        """

        def one(arrays: Columns) -> Columns:
            return {name: array[index].item() for name, array in arrays.items()}

        return PointBounds(one(self.facts), one(self.values), one(self.holds), self.overflow)


def point_bounds(
    points: np.ndarray, shape: Shape, margins: Margins, rho: float, step: float, length: int
) -> PointBounds:
    """Evaluate every single-layer bound.

    Args:
        points: (points, parameters) float64.
        shape: sizes of the layer.
        margins: configured gamma and delta.
        rho: configured stability limit.
        step: length of the finite-difference steps, radius of their balls.
        length: stored tokens per sequence.

    Returns:
        Bounds per point.
    """
    layers = blocks(points, shape)
    norms, decay = spectral_norms(*layers), -np.log(rho)
    gamma, smallest = np.min(-layers.A, axis=1), np.min(layers.W_delta, axis=(1, 2))
    own_gamma, own_delta = gamma - step, softplus(smallest - step)
    known = Known(
        point=configured(norms, decay, *shape),
        tight=realised(*layers, length=length),
        ball=configured(norms, decay, *shape, radius=step),
        own_ball=configured(norms, np.maximum(own_gamma, 0) * own_delta, *shape, radius=step),
        inside=(own_gamma >= margins.gamma) & (own_delta >= margins.delta),
    )
    gradient = gradient_bound(known.point)
    facts = {
        **{f"norm_{block}": norm for block, norm in zip(BLOCKS, norms, strict=True)},
        "k_delta": known.point.step,
        "k_b": gradient.k_b,
        "recurrent_share": gradient.recurrent / gradient.bound,
        "gamma_hat": gamma,
        "delta_hat": softplus(smallest),
        "rho_hat": np.exp(-gamma * softplus(smallest)),
    }
    parts = (gradient, smoothness_bound(known.point), gradient_bound(known.tight))
    return PointBounds(
        facts,
        {c.bound.name: np.broadcast_to(c.value(known), len(points)) for c in COMPARISONS},
        {condition.column.name: condition.holds(known) for condition in conditions()},
        tuple(dict.fromkeys(name for part in parts for name in infinite(part))),
    )


class PairBounds(NamedTuple):
    """Bounds between two points; arrays over pairs."""

    distance: np.ndarray
    smoothness: np.ndarray  # L_{SSM,R} around the first point
    variation: np.ndarray  # L_{G,R} around the first point


def pair_bounds(first: np.ndarray, second: np.ndarray, shape: Shape, rho: float) -> PairBounds:
    """Evaluate Lipschitz constants on the ball around one point that reaches the other.

    Args:
        first: (pairs, parameters) centres.
        second: (pairs, parameters).
        shape: sizes of the layer.
        rho: configured stability limit.

    Returns:
        Bounds per pair.
    """
    distance = np.linalg.norm(second - first, axis=1)
    norms = spectral_norms(*blocks(first, shape))
    ball = configured(norms, -np.log(rho), *shape, radius=distance)
    return PairBounds(distance, smoothness_bound(ball).bound, bound_variation(ball))
