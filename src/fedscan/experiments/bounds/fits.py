"""Table 20, Table 22 and the growth exponents of Figure 2(b)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedscan.analysis.intervals import median, slope, theil_sen
from fedscan.analysis.numbers import Number
from fedscan.experiments.bounds.numbers import POINT

# Column of the joined points -> name in the tables.
GROWTH = {"G": "G", "L": "L", "gradient_median": "gradient", "hessian_median": "hessian"}
DIMENSIONS = {"d_input": "D", "d_state": "N"}


def with_hessians(points: pd.DataFrame, curvature: pd.DataFrame) -> pd.DataFrame:
    """Join points with the median Hessian norm over their sequences.

    Args:
        points: table ``points`` with d_input and d_state.
        curvature: table ``curvature`` with the same.

    Returns:
        ``points`` with a column hessian_median.
    """
    medians = curvature.groupby(POINT, dropna=False)["hessian_norm"].median()
    return points.merge(medians.rename("hessian_median").reset_index(), on=POINT, how="left")


def growth(points: pd.DataFrame, checkpoint: str = "final") -> Iterator[Number]:
    """Yield exponents in 1 - rho at a checkpoint: slopes of logarithms over all its points.

    Args:
        points: joined points.
        checkpoint: which of them.

    Yields:
        Numbers; intervals resample the cells (D, N, seed).
    """
    part = points[points["checkpoint"] == checkpoint]
    cells = part[["d_input", "d_state", "seed"]].astype(str).agg("-".join, axis=1)
    x = np.log10(1 - part["rho"].to_numpy(float))
    for column, name in GROWTH.items():
        y = np.log10(part[column].to_numpy(float))
        yield Number("figure2b", name, "exponent_in_1-rho", *slope(x, y, cells.to_numpy()))
        yield Number("figure2b", name, "theil_sen_exponent", theil_sen(x, y))


def dimensions(points: pd.DataFrame) -> Iterator[Number]:
    """Yield exponents in D and in N at the final checkpoint, per rho.

    One fit per (other size, seed); the median of the fits and its interval.

    Args:
        points: table ``points`` with d_input and d_state.

    Yields:
        Numbers of Table 20; none for a size that has one value.
    """
    final = points[points["checkpoint"] == "final"]
    quantities = {"G": "G", "G_tight": "G_tight", "gradient_median": "gradient"}
    for rho, part in final.groupby("rho"):
        for varied, letter in DIMENSIONS.items():
            (fixed,) = set(DIMENSIONS) - {varied}
            if part[varied].nunique() < 2:
                continue
            for column, name in quantities.items():
                slopes = [
                    _exponent(group, varied, column) for _, group in part.groupby([fixed, "seed"])
                ]
                yield Number("table20", f"{rho:g} {name} {letter}", "exponent", *median(slopes))


def _exponent(group: pd.DataFrame, varied: str, column: str) -> float:
    x, y = (np.log(group[name].to_numpy(float)) for name in (varied, column))
    return float(np.polyfit(x, y, 1)[0])


def factors(points: pd.DataFrame) -> pd.DataFrame:
    """Split log10 of the bound into the logarithms of the factors of its recurrent term.

    Args:
        points: table ``points`` with d_input and d_state.

    Returns:
        One column per factor of Table 22, which sum to log10 G, and the measured gradient.
    """
    d, n, rho = (points[name].to_numpy(float) for name in ("d_input", "d_state", "rho"))
    transition = points["k_delta"] + np.sqrt(d) * points["norm_A"]
    found = pd.DataFrame(
        {
            "memory rho/(1-rho)^2": np.log10(rho / (1 - rho) ** 2),
            "dimension N*D": np.log10(n * d),
            "readout norm W_C": np.log10(points["norm_W_C"].to_numpy(float)),
            "input K_B": np.log10(points["k_b"].to_numpy(float)),
            "step K_Delta": np.log10(points["k_delta"].to_numpy(float)),
            "transition K_Delta+sqrt(D)*norm A": np.log10(transition.to_numpy(float)),
        }
    )
    total = np.log10(points["G"].to_numpy(float))
    found["remaining terms of G_SSM"] = total - found.sum(axis=1)
    found["measured gradient norm"] = np.log10(points["gradient_median"].to_numpy(float))
    return found


def attribution(points: pd.DataFrame) -> Iterator[Number]:
    """Yield what drives the bound and its utilization over all points (Table 22).

    A share is the covariance of a term with the total, divided by the total's variance; shares of
    all terms sum to one. The factors enter the utilization with a minus sign.

    Args:
        points: table ``points`` with d_input and d_state.

    Yields:
        Numbers per factor.
    """
    terms = factors(points)
    measured = terms.pop("measured gradient norm")
    bound = terms.sum(axis=1)
    utilization = measured - bound
    for name, term in [*terms.items(), ("measured gradient norm", measured)]:
        is_factor = name in terms
        yield Number("table22", str(name), "range_decades", float(np.ptp(term)))
        yield Number("table22", str(name), "std_decades", float(term.std()))
        if is_factor:
            share = 100 * _share(term, bound)
            yield Number("table22", str(name), "share_log10_G_percent", share)
        sign = -1 if is_factor else 1
        share = 100 * _share(sign * term, utilization)
        yield Number("table22", str(name), "share_log10_utilization_percent", share)


def _share(term: pd.Series, total: pd.Series) -> float:
    variance = float(total.var())
    return float(term.cov(total)) / variance if variance > 0 else np.nan
