"""The inequalities that consensus is proved with, at random points: how much they hold by.

Silvestre et al., equations (20) and (24)-(28), Propositions IV.1 and V.1, Lemma V.1. A slack is
what is at least zero if the statement holds.
"""

from typing import NamedTuple

import numpy as np
import torch

from fedscan.experiments.consensus.instances import AXIS, Instance
from fedscan.models.analysed_ssm import AnalysedLayer, field, transfer
from fedscan.theory.consensus import (
    Constants,
    c_eff,
    c_star,
    sector_rate,
    smallest_definite,
    weight,
)
from fedscan.theory.consensus_certificate import slack_radius

# A slack below this share of what is compared is a violation.
TOLERANCE = 1e-10
CAP = 0.5
# Share of c_star's own threshold towards 1 at which Proposition V.1 is tried.
ABOVE_THRESHOLD = 0.5
# Powers of ten of 1 - |z^a| where tokens are put near a pole.
NEAR = (-16.0, -2.0)


class Slacks(NamedTuple):
    """Smallest slack of each statement over the points; None where it says nothing.

    Attributes:
        gap: (20), both sides.
        identity: minus the largest error of (24)-(28).
        first: Proposition IV.1 (1).
        later: Proposition IV.1 (2).
        invariance: Lemma V.1, as an inequality of the first token's speed.
        sector: Proposition V.1.
    """

    gap: float | None
    identity: float | None
    first: float | None
    later: float | None
    invariance: float | None
    sector: float | None


class Point(NamedTuple):
    """Tokens at one point, seen from the nearer pole.

    Attributes:
        z: (tokens, n).
        sign: of z^a, (tokens).
        b: |z^a|, (tokens).
        e: z - sign e^a, (tokens, n).
        speed: d b / dt of the flow, (tokens).
        transfers: lambda_ij, (tokens, tokens, n).
        kernel: K, (n, n).
    """

    z: np.ndarray
    sign: np.ndarray
    b: np.ndarray
    e: np.ndarray
    speed: np.ndarray
    transfers: np.ndarray
    kernel: np.ndarray


def slacks(one: Instance, points: int, epsilon: float, stream: np.random.Generator) -> Slacks:
    """Return the smallest slack of every statement.

    Args:
        one: instance, without SiLU: with it nothing is proved.
        points: random points per layer and statement.
        epsilon: of Proposition IV.1 (2).
        stream: source of randomness.

    Returns:
        Slacks over all layers and points.
    """
    found, kernels = one.constants, one.kernels
    norm = max(float(np.linalg.norm(k, 2)) for k in kernels)
    star = c_star(kernels, AXIS)
    values: dict[str, list[float]] = {name: [] for name in Slacks._fields}
    for layer, kernel in zip(one.layers(), kernels, strict=True):
        for point in points_at(_anywhere(one, points, stream), layer, kernel):
            values["gap"] += gap_slacks(point, found)
            values["identity"].append(-float(np.abs(identity(point) - point.speed).max()))
        if not found.gamma > 0:  # nor is NaN
            continue
        near = slack_radius(epsilon, CAP, norm, found.lambda_sum)
        for point in points_at(_in_cap(one, points, stream, CAP, first=True), layer, kernel):
            values["first"].append(first_slack(point, found))
        for point in points_at(_in_cap(one, points, stream, 1 - near, first=False), layer, kernel):
            values["later"].append(later_slack(point, found, norm, epsilon))
        if star is None:
            continue
        alpha = smallest_definite(kernels)
        threshold = c_eff(star, found, one.tokens)
        c = threshold + ABOVE_THRESHOLD * (1 - threshold)
        for point in points_at(_anywhere(one, points, stream), layer, kernel):
            values["invariance"].append(invariance_slack(point, found, alpha))
        for point in points_at(_in_cap(one, points, stream, c, first=False), layer, kernel):
            values["sector"].append(sector_slack(point, found, alpha, star, norm, c))
    return Slacks(**{name: min(v) if v else None for name, v in values.items()})


def at(z: np.ndarray, layer: AnalysedLayer, kernel: np.ndarray) -> Point:
    """Return a point of the flow without SiLU.

    Args:
        z: (tokens, n), of norm 1.
        layer: weights.
        kernel: S_BC of the layer.

    Returns:
        The point.
    """
    return points_at(z[None], layer, kernel)[0]


def points_at(z: np.ndarray, layer: AnalysedLayer, kernel: np.ndarray) -> list[Point]:
    """Return many points of the flow without SiLU.

    Args:
        z: (points, tokens, n), of norm 1.
        layer: weights.
        kernel: S_BC of the layer.

    Returns:
        One per point.
    """
    tokens = torch.from_numpy(z)
    sign = np.where(z[..., AXIS] < 0, -1.0, 1.0)
    e = z.copy()
    e[..., AXIS] -= sign
    speed = sign * field(tokens, layer, silu=False)[..., AXIS].numpy()
    parts = (z, sign, np.abs(z[..., AXIS]), e, speed, transfer(tokens, layer).numpy())
    return [Point(*values, kernel) for values in zip(*parts, strict=True)]


def gap_slacks(point: Point, found: Constants) -> list[float]:
    """Return the slacks of (20), gamma (1 - b^2) <= lambda^a - z^T D z <= Gamma (1 - b^2).

    Args:
        point: of the flow.
        found: constants.

    Returns:
        Two per token.
    """
    made = []
    for i, z in enumerate(point.z):
        own = point.transfers[i, i]
        middle, apart = own[AXIS] - float(z @ (own * z)), 1 - point.b[i] ** 2
        made += [middle - found.gamma * apart, found.gamma_upper * apart - middle]
    return made


def identity(point: Point) -> np.ndarray:
    """Return d b_i / dt as (24)-(28) write it.

    Args:
        point: of the flow.

    Returns:
        (tokens).
    """
    K, pole = point.kernel, np.eye(len(point.kernel))[AXIS]
    speeds = []
    for i, z in enumerate(point.z):
        b, sign = point.b[i], point.sign[i]
        own = point.transfers[i, i]
        total = float(z @ K @ z) * (own[AXIS] - float(z @ (own * z))) * b
        for j in range(i):
            reach, e, other = point.transfers[i, j], point.e[j], point.sign[j]
            P = sign * reach[AXIS] - float(z @ (reach * pole)) * b
            Q = sign * reach[AXIS] * e[AXIS] - float(z @ (reach * e)) * b
            at_pole, at_error = float(z @ K @ pole), float(z @ K @ e)
            total += at_pole * P + other * at_pole * Q + other * at_error * P + at_error * Q
        speeds.append(total)
    return np.array(speeds)


def first_slack(point: Point, found: Constants) -> float:
    """Return the slack of Proposition IV.1 (1): d b_1 / dt >= a_c(z_1) (1 - b_1).

    Args:
        point: its first token is in the cap.
        found: constants.
    """
    z = point.z[0]
    pull = float(weight(np.array(z @ point.kernel @ z), CAP, found))
    return float(point.speed[0]) - pull * (1 - point.b[0])


def later_slack(point: Point, found: Constants, norm: float, epsilon: float) -> float:
    """Return the slack of Proposition IV.1 (2), for the last token; the others are anywhere.

    Args:
        point: its last token is within d_epsilon of a pole.
        found: constants.
        norm: sup||S_BC||, spectral.
        epsilon: of the proposition.

    Returns:
        d b_i / dt - (a_c(z_i) - epsilon) (1 - b_i) + M sum over j < i of ||e_j||.
    """
    i = len(point.z) - 1
    z = point.z[i]
    pull = float(weight(np.array(z @ point.kernel @ z), CAP, found)) - epsilon
    coupled = 4 * norm * found.lambda_max * float(np.linalg.norm(point.e[:i], axis=1).sum())
    return float(point.speed[i]) - pull * (1 - point.b[i]) + coupled


def invariance_slack(point: Point, found: Constants, alpha: float) -> float:
    """Return the slack of Lemma V.1: d b_1 / dt >= alpha gamma b_1 (1 - b_1^2).

    Args:
        point: of the flow.
        found: constants.
        alpha: smallest eigenvalue of the kernels' symmetric parts.
    """
    b = float(point.b[0])
    return float(point.speed[0]) - alpha * found.gamma * b * (1 - b * b)


def sector_slack(
    point: Point, found: Constants, alpha: float, star: float, norm: float, c: float
) -> float:
    """Return the slack of Proposition V.1, for the last token; the others are anywhere.

    Args:
        point: its last token has b >= c.
        found: constants.
        alpha: smallest eigenvalue of the kernels' symmetric parts.
        star: c_star.
        norm: sup||S_BC||, spectral.
        c: above c_eff.

    Returns:
        d b_i / dt - alpha beta (1 + c) (1 - b_i) + M sum over j < i of ||e_j||.
    """
    i = len(point.z) - 1
    pull = alpha * sector_rate(c, star, found, i) * (1 + c)
    coupled = 4 * norm * found.lambda_max * float(np.linalg.norm(point.e[:i], axis=1).sum())
    return float(point.speed[i]) - pull * (1 - point.b[i]) + coupled


def _anywhere(one: Instance, points: int, stream: np.random.Generator) -> np.ndarray:
    z = stream.standard_normal((points, one.tokens, len(one.alpha)))
    unit: np.ndarray = z / np.linalg.norm(z, axis=-1, keepdims=True)
    return unit


def _in_cap(
    one: Instance, points: int, stream: np.random.Generator, height: float, first: bool
) -> np.ndarray:
    """Return points whose first or last token is in the cap |z^a| >= height.

    Others are anywhere, or, in every second point, all so near to a pole that their coupling is
    small: elsewhere it hides the rest.
    """
    found = _anywhere(one, points, stream)
    for index, z in enumerate(found):
        if index % 2:
            near = 1 - 10.0 ** stream.uniform(*NEAR)
            for other in range(len(z)):
                z[other] = _lifted(z[other], near)
        token = 0 if first else len(z) - 1
        z[token] = _lifted(z[token], stream.uniform(height, 1))
    return found


def _lifted(z: np.ndarray, height: float) -> np.ndarray:
    """Return a token of the same longitude with |z^a| = height."""
    moved = z.copy()
    moved[AXIS] = 0.0
    moved *= np.sqrt((1 - height) * (1 + height)) / np.linalg.norm(moved)
    moved[AXIS] = height if z[AXIS] >= 0 else -height
    return moved
