"""One random instance: constants, slacks, simulation, certificate -> a row."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.consensus.flow import Path, integrate, outcome
from fedscan.experiments.consensus.instances import AXIS, Instance, instance, starts
from fedscan.experiments.consensus.statements import TOLERANCE, Slacks, slacks
from fedscan.measure.consensus import t_star, window_minima
from fedscan.models.analysed_ssm import transfer
from fedscan.seeds import generator
from fedscan.theory import consensus
from fedscan.theory.consensus import Constants
from fedscan.theory.consensus_certificate import Certificate, certificate
from fedscan.theory.excitation import Excitation, excitation

# Points of Proposition IV.1 (2) are as near to a pole as costs this rate.
EPSILON = 0.05
# Where a_c along a path is read.
CAP = 0.5
# Share of its radii at which a certificate is tried, and what rounding may add to a bound.
INSIDE = 0.5
BOUND_ROUNDING = 1e-6
STEPS_OF_CERTIFICATE = 200
# V of all tokens that are tried for the radius a simulation shows, and how.
TRIED = (0.9, 0.5, 0.1)
TRIED_HORIZON, TRIED_STEP = 20.0, 0.1


class Asked(NamedTuple):
    """What is asked of an instance.

    Attributes:
        seed: root seed.
        kernel: kind.
        anisotropy: c_star of definite kernels.
        index: of its kind.
        silu: whether B and C pass a SiLU.
        n: channels.
        m: state size.
        tokens: l.
        starts: random starts.
        points: random points per statement.
        horizon: time.
        step: of the integrator.
    """

    seed: int
    kernel: str
    anisotropy: float
    index: int
    silu: bool
    n: int
    m: int
    tokens: int
    starts: int
    points: int
    horizon: float
    step: float


def instance_row(asked: Asked) -> dict[str, Any]:
    """Return the row of an instance, its hashes aside.

    Args:
        asked: which, and how much of it.

    Returns:
        Columns of table ``consensus_instances``.
    """
    one = instance(
        asked.seed, asked.kernel, asked.anisotropy, asked.index, asked.n, asked.m, asked.tokens
    )
    found = one.constants
    star = consensus.c_star(one.kernels, AXIS) if found.gamma > 0 else None
    threshold = None if star is None else consensus.c_eff(star, found, one.tokens)
    excited = excitation(one.kernels, AXIS, found) if found.gamma > 0 else None
    row: dict[str, Any] = {
        "kernel": asked.kernel, "anisotropy": asked.anisotropy, "instance": asked.index,
        "silu": asked.silu, "n": asked.n, "m": asked.m, "tokens": asked.tokens,
        **found._asdict(),
        "alpha": consensus.smallest_definite(one.kernels),
        "c_star": star,
        "c_eff": threshold,
        "c_eff_printed": None
        if star is None
        else consensus.c_eff_printed(star, found, one.tokens),
        "undefined": _undefined(one, found, star, asked.m),
        "excitation_c": None if excited is None else excited.c,
        "excitation_window": None if excited is None else excited.window,
        "excitation_rho": None if excited is None else excited.rho,
        "starts": asked.starts,
    }  # fmt: skip
    row |= _statements(one, asked)
    made = None if asked.silu else _certificate(one, found, excited)
    row["violations_certificate"] = 0 if made is None else certificate_violations(one, made)
    row["radius_certified"] = None if made is None else made.radii[0]
    row["radius_simulated"] = None if made is None else simulated_radius(one, asked)
    row["rate_certified"] = None if made is None else made.rates[-1]
    start = starts(asked.seed, asked.index, asked.starts, asked.tokens, asked.n)
    path = integrate(start, one.layers(), asked.silu, asked.horizon, asked.step)
    return row | simulated(one, path, found, threshold, asked.silu)


def _undefined(one: Instance, found: Constants, star: float | None, m: int) -> str | None:
    if star is not None:
        return None
    if found.gamma <= 0:
        return f"gamma = {found.gamma:.3g} is not positive: no certified spectral gap"
    if m < len(one.alpha):
        return f"m = {m} is below n = {len(one.alpha)}: S_BC has no full rank"
    return "sym(S_BC) has an eigenvalue that is not positive"


def _statements(one: Instance, asked: Asked) -> dict[str, Any]:
    """Return slacks and violations; with SiLU nothing is proved, and nothing compared."""
    if asked.silu:
        held = Slacks(*[None] * len(Slacks._fields))
    else:
        axes = (asked.kernel, f"{asked.anisotropy!r}", asked.index)
        stream = generator(asked.seed, "consensus points", *axes)
        held = slacks(one, asked.points, EPSILON, stream)
    row: dict[str, Any] = {}
    for name, slack in held._asdict().items():
        row[f"slack_{name}"] = None if slack is None else float(slack)
        row[f"violations_{name}"] = int(violated(slack))
    return row


def violated(slack: float | None) -> bool:
    """Return whether a statement does not hold: its slack is negative beyond rounding, or none.

    Args:
        slack: smallest slack; None where the statement says nothing.
    """
    return slack is not None and not slack >= -TOLERANCE


def _certificate(one: Instance, found: Constants, excited: Excitation | None) -> Certificate | None:
    if excited is None:
        return None
    norm = max(float(np.linalg.norm(kernel, 2)) for kernel in one.kernels)
    return certificate(found, excited, norm, one.tokens, excited.rho / 2)


def certificate_violations(one: Instance, made: Certificate) -> int:
    """Count starts inside the certified radii that leave the certified bound, one of all signs.

    Args:
        one: instance.
        made: its certificate.

    Returns:
        Violations among 2^tokens starts.
    """
    V, signs = INSIDE * np.array(made.radii), _all_signs(one.tokens)
    # Along one diagonal, at every combination of signs.
    z = _near_poles(np.ones((len(signs), one.tokens, len(one.alpha))), V, signs)
    horizon = 2.0 * len(one.kernels)
    step = horizon / STEPS_OF_CERTIFICATE
    path = integrate(z, one.layers(), False, horizon, step)
    rates, factors = np.array(made.rates), np.array(made.factors)
    bound = factors * made.radii * np.exp(-rates * path.times[:, None, None])
    return int((~(path.distance <= bound * (1 + BOUND_ROUNDING))).any(axis=(0, 2)).sum())


def simulated_radius(one: Instance, asked: Asked) -> float:
    """Return from how far tokens of all signs reach consensus, for which a certificate is smaller.

    Args:
        one: instance.
        asked: which one it is.

    Returns:
        The largest V of ``TRIED``, the same for all tokens, from which 2^tokens starts in random
        directions all reach consensus, and from every smaller one tried; 0 if there is none.
    """
    signs = np.tile(_all_signs(one.tokens), (len(TRIED), 1))
    V = np.repeat(TRIED, 2**one.tokens)[:, None]
    drawn = starts(asked.seed, asked.index, len(signs), one.tokens, len(one.alpha))
    z = _near_poles(drawn, V, signs)
    reached = outcome(integrate(z, one.layers(), False, TRIED_HORIZON, TRIED_STEP)).reached
    together = reached.reshape(len(TRIED), -1).all(axis=1)
    # From the smallest upwards, as long as all do.
    held = int(np.cumprod(together[::-1]).sum())
    return TRIED[-held] if held else 0.0


def _all_signs(tokens: int) -> np.ndarray:
    """Return every combination, (2^tokens, tokens)."""
    return 1 - 2.0 * ((np.arange(2**tokens)[:, None] >> np.arange(tokens)) & 1)


def _near_poles(directions: np.ndarray, V: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Return tokens with 1 - |z^a| = V: the other components' norm is sqrt(V (2 - V))."""
    z = directions.copy()
    z[..., AXIS] = 0
    z *= (np.sqrt(V * (2 - V)) / np.linalg.norm(z, axis=-1))[..., None]
    z[..., AXIS] = signs * (1 - V)
    return z


def simulated(
    one: Instance, path: Path, found: Constants, threshold: float | None, silu: bool
) -> dict[str, Any]:
    """Return what the random starts did.

    Args:
        one: instance.
        path: of its starts.
        found: constants.
        threshold: c_eff, or None.
        silu: whether B and C passed a SiLU: no theorem is then compared.

    Returns:
        Columns of table ``consensus_instances``.
    """
    became = outcome(path)
    finite = bool(np.isfinite(path.end).all())
    above = None
    violations = 0
    if threshold is not None and not silu:
        over = (became.late_supremum > threshold).all(axis=1)
        above = int(over.sum())
        violations = int((over & ~became.reached & ~became.shrinking).sum())
    first = path.q[:, 0, 0]
    pull = consensus.weight(path.quadratic[:, 0], CAP, found)
    shortest = [int(t_star(window_minima(values))) or None for values in (first, pull)]
    linear = None if silu else linear_rate(one, np.sign(path.end[..., AXIS]), became.reached)
    return {
        "status": "completed" if finite else "failed",
        "failure": None if finite else "the flow became non-finite",
        "reached": int(became.reached.sum()),
        "undecided": int(became.shrinking.sum()),
        "above_threshold": above,
        "smallest_late": float(became.late_supremum.min()),
        "violations_theorem": violations,
        "rate_linear": linear,
        "rate_measured": None if math.isnan(became.rate) else became.rate,
        "t_star_q": shortest[0],
        "t_star_a": shortest[1],
    }


def linear_rate(one: Instance, signs: np.ndarray, reached: np.ndarray) -> float | None:
    """Return the rate of the slowest V near the consensus points that were reached.

    Args:
        one: instance, without SiLU.
        signs: of z^a at the end, (starts, tokens).
        reached: which starts reached consensus.

    Returns:
        Median over starts of twice the slowest eigenvalue's size, mean over layers in turn; None if
        no start reached consensus.
    """
    rates = [_slowest(one, sigma) for sigma in signs[reached]]
    return float(np.median(rates)) if rates else None


def _slowest(one: Instance, sigma: Sequence[float]) -> float:
    z = np.zeros((one.tokens, len(one.alpha)))
    z[:, AXIS] = sigma
    layers = [
        eigenvalues(kernel, transfer(torch.from_numpy(z)[None], layer)[0].numpy())
        for layer, kernel in zip(one.layers(), one.kernels, strict=True)
    ]
    return float(-2 * np.mean(layers, axis=0).max())


def eigenvalues(kernel: np.ndarray, transfers: np.ndarray, axis: int = AXIS) -> np.ndarray:
    """Return the tangent eigenvalues at consensus on an axis, without SiLU (ours).

    Args:
        kernel: K = S_BC.
        transfers: lambda_ij at the consensus point, (tokens, tokens, n).
        axis: mu, any axis.

    Returns:
        -K_mm (lambda_ii^m - lambda_ii^v + sum over j < i of lambda_ij^m), (tokens, n - 1); of any
        signs, and whatever the rest of K is.
    """
    others = [nu for nu in range(len(kernel)) if nu != axis]
    own = np.einsum("iin->in", transfers)
    earlier = np.array([transfers[i, :i, axis].sum() for i in range(len(transfers))])
    return -kernel[axis, axis] * (own[:, axis, None] - own[:, others] + earlier[:, None])
