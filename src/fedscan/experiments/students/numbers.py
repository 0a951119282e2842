"""Federated learners: scaling exponents, total variation, checks; beside the paper's numbers."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedscan.analysis.intervals import median, slope, theil_sen
from fedscan.analysis.numbers import Number
from fedscan.experiments.teachers.tables import CELL

RUN = [*CELL, "clients", "local_steps", "partition", "algorithm", "value", "seed"]
Key = tuple[str, str, str]
# Section 5, Appendix H.1 and the caption of Figure 8.
PAPER: dict[Key, float] = {
    ("figure6a", "client drift in E", "exponent"): 0.87,
    ("figure6a", "reference radius in E", "exponent"): 1.0,
    ("figure6b", "disagreement in K", "exponent"): 1.48,
    ("figure6c", "disagreement in 1-rho", "exponent"): -1.15,
    ("figure6c", "squared gradient in 1-rho", "exponent"): -0.2,
    ("figure8b", "K=4 iid sequence", "squared_tv"): 0.56,
    ("figure8b", "K=4 dominant sequence", "squared_tv"): 0.56,
    ("figure8b", "K=2 iid sequence", "squared_tv"): 0.25,
    ("figure8b", "K=32 iid sequence", "squared_tv"): 0.94,
    ("figure8b", "K=4 iid unigram", "squared_tv"): 1.6e-5,
    ("figure8b", "K=4 dominant unigram", "squared_tv"): 2.8e-3,
    ("figure8b", "dominant / iid", "disagreement_ratio"): 226.0,
    ("checks", "all", "runs"): 1200,
    ("checks", "all", "gradient_and_displacement_checks"): 103_200,
    ("checks", "all", "violations"): 0,
}


class Students(NamedTuple):
    """Collected tables with columns d_input, d_state, rho."""

    runs: pd.DataFrame
    rounds: pd.DataFrame


def tails(found: Students) -> pd.DataFrame:
    """Average every completed run's quantities over the second half of its rounds.

    Args:
        found: collected tables.

    Returns:
        One row per run with drift, disagreement and gradient_squared, joined with its run's row.
    """
    rounds = found.rounds
    late = rounds[rounds["round"] * 2 >= rounds.groupby(RUN)["round"].transform("max")]
    means = late.groupby(RUN)[["client_drift_mean", "disagreement", "gradient_squared"]].mean()
    done = found.runs[found.runs["status"] == "completed"]
    return done.merge(means.rename(columns={"client_drift_mean": "drift"}).reset_index(), on=RUN)


def is_base(runs: pd.DataFrame, *free: str) -> pd.Series:
    """Return which runs are the base setting, apart from the factors in ``free``.

    The base is what most runs share: at the paper's scale K = 4, E = 16, iid; FedAvg, and FedProx
    with mu = 0.1.

    Args:
        runs: rows with the run's axes.
        free: factors that may take any value.

    Returns:
        Boolean mask, of FedAvg and FedProx only.
    """
    mask = runs["algorithm"].isin(["fedavg", "fedprox"])
    common = runs[mask]
    for name in ("clients", "local_steps", "partition"):
        if name not in free and len(common):
            mask &= runs[name] == common[name].mode().iloc[0]
    for algorithm, part in common.groupby("algorithm"):
        mask &= (runs["algorithm"] != algorithm) | (runs["value"] == part["value"].mode().iloc[0])
    return mask


def cells_of(runs: pd.DataFrame) -> np.ndarray:
    """Return labels of (dataset, algorithm, seed), the units that are resampled."""
    return runs[[*CELL, "algorithm", "seed"]].astype(str).agg("-".join, axis=1).to_numpy()


def core(runs: pd.DataFrame, factor: str) -> pd.DataFrame:
    """Return runs of the cells in which a factor was varied.

    Args:
        runs: base runs with that factor free.
        factor: column.

    Returns:
        Rows of cells with at least two values.
    """
    varied = runs.groupby(CELL)[factor].transform("nunique") > 1
    return runs[varied]


def scaling(tail: pd.DataFrame) -> Iterator[Number]:
    """Yield exponents of drift, radius, disagreement and gradient; slopes of logarithms.

    Args:
        tail: result of ``tails``.

    Yields:
        Numbers; intervals resample cells and seeds.
    """
    steps = core(tail[is_base(tail, "local_steps")], "local_steps")
    clients = core(tail[is_base(tail, "clients")], "clients")
    base = tail[is_base(tail)]
    for table, rows, x, y, name in (
        ("figure6a", steps, "local_steps", "drift", "client drift in E"),
        ("figure6a", steps, "local_steps", "radius", "reference radius in E"),
        ("figure6b", clients, "clients", "disagreement", "disagreement in K"),
        ("figure6c", base, "memory", "disagreement", "disagreement in 1-rho"),
        ("figure6c", base, "memory", "drift", "client drift in 1-rho"),
        ("figure6c", base, "memory", "gradient_squared", "squared gradient in 1-rho"),
    ):
        values = 1 - rows["rho"] if x == "memory" else rows[x]
        logs = np.log(values.astype(float)), np.log(rows[y].astype(float))
        yield Number(table, name, "exponent", *slope(*logs, cells_of(rows)))
        yield Number(table, name, "theil_sen_exponent", theil_sen(*logs))


def total_variation(found: Students, tail: pd.DataFrame) -> Iterator[Number]:
    """Yield squared total variation by K, partition and scale, and what disagreement does.

    Args:
        found: collected tables.
        tail: result of ``tails``.

    Yields:
        Medians over runs, and the ratio of disagreement between the partitions.
    """
    note = "token-level terms are diagnostics; only the sequence level is certified"
    for (clients, partition), part in found.runs.groupby(["clients", "partition"]):
        for scale in ("sequence", "bigram", "unigram"):
            row = f"K={clients} {partition} {scale}"
            value = float(part[f"tv_{scale}"].median())
            text = "" if scale == "sequence" else note
            yield Number("figure8b", row, "squared_tv", value, note=text)
    pairs = tail[is_base(tail, "partition")].pivot_table(
        index=[*CELL, "algorithm", "value", "seed"], columns="partition", values="disagreement"
    )
    if {"iid", "dominant"} <= set(pairs.columns):
        ratio = (pairs["dominant"] / pairs["iid"]).dropna().to_numpy(float)
        yield Number("figure8b", "dominant / iid", "disagreement_ratio", *median(ratio))


def token_level(found: Students) -> Iterator[Number]:
    """Yield how well sequence- and token-level terms order measured disagreement; ours.

    Args:
        found: collected tables.

    Yields:
        Spearman correlations over evaluated rounds of all runs, and shares of the bound used.
    """
    rows = found.rounds.dropna(subset=["disagreement"])
    rows = rows[rows["disagreement"] > 0]
    note = "ours; the token-level term is uncertified"
    for column, name in (
        ("disagreement_bound_tight", "4 G_tight^2 H_TV over sequences"),
        ("token_level", "4 G_tight^2 H_TV over bigrams"),
    ):
        ratio = rows["disagreement"] / rows[column]
        rank = rows[["disagreement", column]].corr(method="spearman").iloc[0, 1]
        yield Number("figure8a", name, "rank_correlation", float(rank), note=note)
        yield Number("figure8a", name, "median_share_used", float(ratio.median()), note=note)
        yield Number("figure8a", name, "max_share_used", float(ratio.max()), note=note)
    ratio = rows["disagreement"] / rows["disagreement_bound"]
    name = "4 G^2 H_TV over sequences"
    yield Number("figure8a", name, "median_share_used", float(ratio.median()))
    yield Number("figure8a", name, "max_share_used", float(ratio.max()))


def checks(found: Students) -> Iterator[Number]:
    """Yield counts of runs, checks, violations, containment and step-size conditions.

    Args:
        found: collected tables.

    Yields:
        Numbers per algorithm and for all.
    """
    evaluated = found.rounds["G"].notna()
    groups = [*found.runs.groupby("algorithm"), ("all", found.runs)]
    for name, runs in groups:
        row = str(name)
        rounds = found.rounds if row == "all" else found.rounds[found.rounds["algorithm"] == row]
        points = int(evaluated[rounds.index].sum())
        displacements = int(rounds["displacement_max"].notna().sum())
        yield Number("checks", row, "runs", len(runs))
        yield Number("checks", row, "failed_runs", int((runs["status"] == "failed").sum()))
        yield Number("checks", row, "gradient_and_displacement_checks", 2 * points + displacements)
        yield Number("checks", row, "heterogeneity_checks", 2 * points)
        yield Number("checks", row, "all_checks", int(runs["checks"].sum()))
        yield Number("checks", row, "violations", int(runs["violations"].sum()))
        yield Number("checks", row, "runs_contained", int(runs["contained"].sum()))
        yield Number("checks", row, "theorem_applies", int(runs["theorem_applies"].sum()))
        yield Number("checks", row, "median_test_nll", float(runs["test_nll"].median()))


def convergence(found: Students) -> Iterator[Number]:
    """Yield the theorems' right-hand sides beside the left-hand sides.

    Args:
        found: collected tables.

    Yields:
        Medians over runs; the conditions fail by design at these step sizes.
    """
    proven = found.runs[found.runs["right_side"].notna()]
    for name, runs in proven.groupby("algorithm"):
        theorem = {"fedavg": "Theorem B.5", "fedprox": "Theorem B.6"}[str(name)]
        columns = ("left_side", "right_side", "step_condition", "drift_condition")
        for column in columns:
            yield Number("convergence", theorem, f"median_{column}", float(runs[column].median()))
        ratio = float((runs["left_side"] / runs["right_side"]).max())
        yield Number("convergence", theorem, "max_left_over_right", ratio)
