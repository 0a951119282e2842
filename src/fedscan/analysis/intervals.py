"""Medians and slopes with 95% intervals.

Percentile bootstrap only where at least ten units are resampled: with three, it covers about 0.79.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

RESAMPLES = 2000
SEED = 0
ENOUGH = 10


class Estimate(NamedTuple):
    """A value with its 95% percentile interval; NaN where there is too little data."""

    value: float
    low: float
    high: float


def median(values: np.ndarray) -> Estimate:
    """Return the median with an interval.

    Args:
        values: (m), finite; the units that are resampled.

    Returns:
        The estimate; below ten values the interval is the exact one by order statistics, which
        exists from six values on.
    """
    values = np.asarray(values, float)
    if not len(values):
        return Estimate(np.nan, np.nan, np.nan)
    centre = float(np.median(values))
    if len(values) < ENOUGH:
        exact = stats.quantile_test(values, q=centre, p=0.5).confidence_interval(0.95)
        return Estimate(centre, float(exact.low), float(exact.high))
    if np.ptp(values) == 0:
        return Estimate(centre, centre, centre)
    found = stats.bootstrap(
        (values,),
        np.median,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(SEED),
        batch=200,
    )
    return Estimate(centre, *map(float, found.confidence_interval))


def theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    """Return the Theil-Sen slope of y on x, which outliers hardly move.

    Args:
        x: (m).
        y: (m).

    Returns:
        Median of the slopes between pairs of points; NaN if x has fewer than two values.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(np.unique(x)) < 2:
        return float("nan")
    with np.errstate(invalid="ignore"):  # of the slope's interval, which ties may void
        return float(stats.theilslopes(y, x).slope)


def slope(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Estimate:
    """Return the least-squares slope of y on x; groups of rows are resampled together.

    Args:
        x: (m).
        y: (m).
        groups: (m) labels of the units that are resampled, e.g. configurations.

    Returns:
        The estimate; NaN if x has fewer than two values, no interval below ten groups.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    names, index = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    if len(np.unique(x)) < 2:
        return Estimate(np.nan, np.nan, np.nan)
    # Weighted sums per group make a resample a product of counts and sums.
    terms = np.stack([np.ones_like(x), x, y, x * x, x * y], axis=1)
    sums = np.zeros((len(names), 5))
    np.add.at(sums, index, terms)
    centre = _slope(sums.sum(axis=0))
    if len(names) < ENOUGH:
        return Estimate(centre, np.nan, np.nan)
    random = np.random.default_rng(SEED)
    counts = random.multinomial(len(names), np.full(len(names), 1 / len(names)), RESAMPLES)
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = _slope((counts @ sums).T)
    resampled = resampled[np.isfinite(resampled)]
    return Estimate(centre, *map(float, np.percentile(resampled, [2.5, 97.5])))


def _slope(sums: np.ndarray) -> np.ndarray | float:
    count, x, y, xx, xy = sums
    return (count * xy - x * y) / (count * xx - x * x)
