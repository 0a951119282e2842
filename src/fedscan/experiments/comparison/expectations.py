"""What theory expects of each algorithm, and whether it happened (paper, Table 2).

-1: lower perplexity than FedAvg, 0: similar, +1: higher. The paper prints expectations at beta 0
and 1; which of them holds in between is the caller's choice.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from fedscan.analysis.intervals import Estimate, pearson
from fedscan.declared import algorithms

# Each algorithm's file declares them.
EXPECTED = {
    name: found.expectation for name, found in algorithms().items() if found.expectation is not None
}


def expectation(algorithm: str, beta: float, between: str) -> float:
    """Return the expected sign of an algorithm's change against FedAvg.

    Args:
        algorithm: registry name, not fedavg.
        beta: heterogeneity.
        between: 'homogeneous' or 'heterogeneous': the column that holds for 0 < beta < 1.

    Returns:
        -1, 0 or +1; NaN for an algorithm that theory says nothing of.
    """
    if algorithm not in EXPECTED:
        return math.nan
    homogeneous, heterogeneous = EXPECTED[algorithm]
    if beta in (0, 1):
        return homogeneous if beta == 0 else heterogeneous
    return homogeneous if between == "homogeneous" else heterogeneous


class Agreement(NamedTuple):
    """How many observed changes have the expected sign."""

    agreeing: int
    compared: int


def agreement(changes: pd.DataFrame, between: str, similar_percent: float) -> Agreement:
    """Compare observed changes with expectations.

    Args:
        changes: columns algorithm, beta, change_percent; one row per case.
        between: see ``expectation``.
        similar_percent: a change of at most this many percent counts as similar.

    Returns:
        Counts over rows with a finite change and an expectation.
    """
    rows = changes[np.isfinite(changes["change_percent"].astype(float))]
    observed = np.sign(rows["change_percent"].astype(float))
    observed[rows["change_percent"].abs() <= similar_percent] = 0
    cases = zip(rows["algorithm"], rows["beta"], strict=True)
    expected = np.array([expectation(algorithm, beta, between) for algorithm, beta in cases], float)
    known = int(np.isfinite(expected).sum())
    return Agreement(int((observed.to_numpy() == expected).sum()), known)


class Correlation(NamedTuple):
    """Correlation of expectation and log-perplexity change."""

    pearson: Estimate
    spearman: float
    cases: int


def correlation(changes: pd.DataFrame, configuration: list[str], between: str) -> Correlation:
    """Correlate expectations with what happened.

    Args:
        changes: columns algorithm, beta, log_change and the configuration's; a row per
            configuration, algorithm and seed.
        configuration: columns that name a configuration, the unit that is resampled.
        between: see ``expectation``.

    Returns:
        Over algorithms with an expectation: Pearson's r with a cluster-bootstrap interval (from ten
        configurations on), Spearman's rho.
    """
    rows = changes[np.isfinite(changes["log_change"].astype(float))]
    cases = zip(rows["algorithm"], rows["beta"], strict=True)
    x = np.array([expectation(algorithm, beta, between) for algorithm, beta in cases], float)
    rows, x = rows[np.isfinite(x)], x[np.isfinite(x)]
    y = rows["log_change"].to_numpy(float)
    if len(rows) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        nothing = Estimate(np.nan, np.nan, np.nan)
        return Correlation(nothing, np.nan, len(rows))
    names = rows[configuration].astype(str).agg("|".join, axis=1).to_numpy()
    return Correlation(pearson(x, y, names), float(stats.spearmanr(x, y).statistic), len(rows))
