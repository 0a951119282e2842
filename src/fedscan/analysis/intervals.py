"""Means, medians, slopes and correlations with 95% intervals.

Percentile bootstrap only where at least ten units are resampled: with three, it covers about 0.79.
"""

from collections.abc import Callable
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


def mean(values: np.ndarray) -> Estimate:
    """Return the mean with Student's t interval.

    Args:
        values: (m), finite, m at least 1.

    Returns:
        The estimate; no interval for a single value or equal ones.
    """
    values = np.asarray(values, float)
    centre = float(values.mean())
    if len(values) < 2 or np.ptp(values) == 0:
        return Estimate(centre, np.nan, np.nan)
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return Estimate(centre, float(interval.low), float(interval.high))


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
    if len(np.unique(x)) < 2:
        return Estimate(np.nan, np.nan, np.nan)
    return _clustered(_slope, [np.ones_like(x), x, y, x * x, x * y], groups)


def pearson(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Estimate:
    """Return Pearson's correlation of x and y; groups of rows are resampled together.

    Args:
        x: (m), not all equal.
        y: (m), not all equal.
        groups: (m) labels of the units that are resampled, e.g. configurations.

    Returns:
        The estimate; no interval below ten groups.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    return _clustered(_correlation, [np.ones_like(x), x, y, x * x, x * y, y * y], groups)


def _clustered(
    statistic: Callable[[np.ndarray], np.ndarray], terms: list[np.ndarray], groups: np.ndarray
) -> Estimate:
    """Return a statistic of sums over rows; groups of rows are resampled together."""
    names, index = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    # Sums per group make a resample a product of counts and sums.
    sums = np.zeros((len(names), len(terms)))
    np.add.at(sums, index, np.stack(terms, axis=1))
    centre = float(statistic(sums.sum(axis=0)))
    if len(names) < ENOUGH:
        return Estimate(centre, np.nan, np.nan)
    share = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(SEED).multinomial(len(names), share, RESAMPLES)
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = statistic((counts @ sums).T)
    # A resample in which nothing varies has no statistic.
    resampled = resampled[np.isfinite(resampled)]
    return Estimate(centre, *map(float, np.percentile(resampled, [2.5, 97.5])))


def _slope(sums: np.ndarray) -> np.ndarray:
    count, x, y, xx, xy = sums
    return np.asarray((count * xy - x * y) / (count * xx - x * x))


def _correlation(sums: np.ndarray) -> np.ndarray:
    count, x, y, xx, xy, yy = sums
    spread = (count * xx - x * x) * (count * yy - y * y)
    return np.asarray((count * xy - x * y) / np.sqrt(spread))
