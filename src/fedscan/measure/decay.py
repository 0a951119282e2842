"""How a profile over lags decays: least-squares fits of four laws on logarithms, chosen by AIC."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Shorter lags say more of the sequence's end than of the law.
FIRST_LAG = 8
RESAMPLES = 500
ENOUGH = 10
ZERO, RISING = "zero", "rising"


class Law(NamedTuple):
    """A law log y = level - slope * x(lag) + fixed(lag).

    Attributes:
        x: what the slope is of; None: the slope is not fitted.
        fixed: the part that is not fitted.
    """

    x: Callable[[np.ndarray], np.ndarray] | None
    fixed: Callable[[np.ndarray], np.ndarray]


LAWS = {
    "power": Law(np.log, np.zeros_like),
    "power_log": Law(np.log, lambda lag: np.log1p(np.log1p(lag))),
    "exponential": Law(lambda lag: lag, np.zeros_like),
    "inverse": Law(None, lambda lag: -np.log(lag)),
}


class Decay(NamedTuple):
    """What was fitted; None where too few values are above zero.

    Attributes:
        law: of the smallest AIC; 'rising' if that one falls with no lag, 'zero' if little is left.
        beta: exponent of the power law.
        beta_low: lower end of its 95% interval over sequences; None below ten sequences.
        beta_high: upper end.
        rate: of the exponential law, per token.
        aic: of every law.
    """

    law: str
    beta: float | None = None
    beta_low: float | None = None
    beta_high: float | None = None
    rate: float | None = None
    aic: dict[str, float] | None = None


def fit(lags: np.ndarray, profiles: np.ndarray, stream: np.random.Generator) -> Decay:
    """Fit every law to the geometric mean over sequences.

    Args:
        lags: (m), in tokens.
        profiles: (sequences, m), not negative.
        stream: source of the bootstrap's randomness.

    Returns:
        The fits, of lags from ``FIRST_LAG`` on.
    """
    used = (lags >= FIRST_LAG) & (profiles > 0).all(axis=0)
    if used.sum() < 4:
        return Decay(ZERO)
    x, logs = lags[used].astype(float), np.log(profiles[:, used])
    found = {name: _least_squares(law, x, logs.mean(axis=0)) for name, law in LAWS.items()}
    aic = {name: value for name, (_, value) in found.items()}
    low, high = _interval(x, logs, stream)
    best = min(aic, key=lambda name: aic[name])
    falls = LAWS[best].x is None or found[best][0] > 0
    return Decay(
        best if falls else RISING,
        found["power"][0],
        low,
        high,
        found["exponential"][0],
        aic,
    )


def _least_squares(law: Law, lags: np.ndarray, logs: np.ndarray) -> tuple[float, float]:
    """Return the slope (0 where none is fitted) and the AIC."""
    y, slope = logs - law.fixed(lags), 0.0
    if law.x is not None:
        x = law.x(lags)
        centred = x - x.mean()
        slope = -float(centred @ y / (centred @ centred))
        y = y + slope * x
    residual = y - y.mean()
    # An exact fit has no finite AIC; a rounding error's worth of residual stands for it.
    mean_square = max(float(residual @ residual) / len(y), 1e-24)
    return slope, len(y) * np.log(mean_square) + 2 * (2 if law.x is None else 3)


def _interval(
    lags: np.ndarray, logs: np.ndarray, stream: np.random.Generator
) -> tuple[float | None, float | None]:
    if len(logs) < ENOUGH:
        return None, None
    x = np.log(lags)
    centred = x - x.mean()
    slopes = -(logs @ centred) / (centred @ centred)
    chosen = stream.integers(len(slopes), size=(RESAMPLES, len(slopes)))
    low, high = np.percentile(slopes[chosen].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
