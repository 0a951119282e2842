"""The comparison's numbers beside the paper's: Table 2, Tables 23-26, correlation, paired tests."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from fedscan.analysis.intervals import mean
from fedscan.analysis.numbers import Key, Number
from fedscan.analysis.style import NAMES
from fedscan.experiments.comparison.expectations import agreement, correlation
from fedscan.experiments.comparison.selection import BASELINE, CONFIGURATION, METRICS

# Table of the paper -> factor whose levels are its rows.
FACTORS = {"table23": "beta", "table24": "local_steps", "table25": "setting", "table26": "depth"}
CLIENT_COUNT = {"table27": "clients"}
BACKBONE = {"table28": "backbone"}
CORRELATION_FACTORS = ("beta", "depth", "local_steps", "setting")
PAPER_AGREEMENT, PAPER_R, PAPER_R_HETEROGENEOUS = 13, 0.71, 0.81


def changes(runs: pd.DataFrame, comparison: pd.DataFrame) -> pd.DataFrame:
    """Pair every selected run with FedAvg's of the same configuration and seed.

    Args:
        runs: table ``all_runs``.
        comparison: table ``comparison``, which selects a value per algorithm.

    Returns:
        Columns of the configuration, algorithm, seed, log_change: the logarithm of the ratio of
        last-10 perplexities.
    """
    key = [*CONFIGURATION, "algorithm", "value"]
    chosen = runs[runs["status"] == "completed"].merge(comparison[key], on=key)
    chosen = chosen[[*CONFIGURATION, "algorithm", "seed", "val_ppl_last10"]]
    base = chosen[chosen["algorithm"] == BASELINE].drop(columns="algorithm")
    paired = chosen[chosen["algorithm"] != BASELINE].merge(
        base, on=[*CONFIGURATION, "seed"], suffixes=("", "_fedavg")
    )
    ratio = paired["val_ppl_last10"].astype(float) / paired["val_ppl_last10_fedavg"].astype(float)
    return paired.assign(log_change=np.log(ratio))


def table2(comparison: pd.DataFrame, between: str, similar_percent: float) -> Iterator[Number]:
    """Yield the mean change against FedAvg per algorithm and beta, and the agreement.

    Args:
        comparison: table ``comparison``, one study.
        between: see ``expectations.expectation``.
        similar_percent: see ``expectations.agreement``.

    Yields:
        Means over configurations; the agreement counts the paper's betas 0 and 1 only.
    """
    rows = comparison[comparison["algorithm"] != BASELINE]
    means = rows.astype({"change_percent": float})
    means = means.groupby(["algorithm", "beta"])["change_percent"].mean().reset_index()
    for row in means.to_dict("records"):
        label = f"{NAMES[str(row['algorithm'])]} beta={row['beta']:g}"
        yield Number("table2", label, "change_percent", float(row["change_percent"]))
    found = agreement(means[means["beta"].isin([0.0, 1.0])], between, similar_percent)
    note = f"of {found.compared} cases; at most {similar_percent:g}% counts as similar"
    yield Number("table2", "agreement", "cases", found.agreeing, note=note)
    yield Number("table2", "agreement", "compared", found.compared)


def correlations(paired: pd.DataFrame, between: str) -> Iterator[Number]:
    """Yield the correlation of expectation and log-perplexity change, over all and per factor.

    Args:
        paired: result of ``changes``.
        between: see ``expectations.expectation``.

    Yields:
        Pearson's r with its interval, Spearman's rho.
    """
    note = f"for 0 < beta < 1: the {between} expectations"
    parts = [("all", paired)]
    for factor in CORRELATION_FACTORS:
        parts += [(f"{factor}={_level(level)}", part) for level, part in paired.groupby(factor)]
    for row, part in parts:
        found = correlation(part, CONFIGURATION, between)
        yield Number("correlation", row, "pearson_r", *found.pearson, note=note)
        yield Number("correlation", row, "spearman_rho", found.spearman)
        yield Number("correlation", row, "cases", found.cases)


def paired_tests(paired: pd.DataFrame, order: Sequence[str] = ()) -> Iterator[Number]:
    """Yield each method's mean log change against FedAvg with its t interval.

    Args:
        paired: result of ``changes``.
        order: labels that come first, in this order.

    Yields:
        Means over configurations of the seeds' means; an interval needs two configurations.
    """
    count = paired["algorithm"].nunique()
    risk = 100 * (1 - 0.95**count)
    note = f"{count} intervals at 95% each: {risk:.0f}% chance that one misses"
    there = set(paired["algorithm"])
    names = {label: name for name, label in NAMES.items()}
    first = [names[label] for label in order if label in names]
    for algorithm in [name for name in dict.fromkeys([*first, *NAMES]) if name in there]:
        part = paired[paired["algorithm"] == algorithm]
        means = part.groupby(CONFIGURATION)["log_change"].mean().to_numpy(float)
        yield Number("paired", NAMES[algorithm], "mean_log_change", *mean(means), note)


def factor_tables(
    runs: pd.DataFrame, comparison: pd.DataFrame, factors: Mapping[str, str]
) -> Iterator[Number]:
    """Yield perplexities by one factor, averaged over the others (Tables 23-28).

    Args:
        runs: table ``all_runs``.
        comparison: table ``comparison``, one study.
        factors: table of the paper -> factor whose levels are its rows.

    Yields:
        Means over seeds of the seeds' means over configurations, and their standard deviation.
    """
    key = [*CONFIGURATION, "algorithm", "value"]
    chosen = runs[runs["status"] == "completed"].merge(comparison[key], on=key)
    for table, factor in factors.items():
        for (algorithm, level), part in chosen.groupby(["algorithm", factor]):
            row = f"{NAMES[str(algorithm)]} {factor}={_level(level)}"
            for metric in METRICS:
                by_seed = part.groupby("seed")[metric].mean().astype(float)
                yield Number(table, row, metric, float(by_seed.mean()))
                if len(by_seed) > 1:
                    yield Number(table, row, f"{metric}_std", float(by_seed.std(ddof=1)))


def paper_numbers(tables: Mapping[str, pd.DataFrame]) -> dict[Key, float]:
    """Return the published numbers, keyed like ours.

    Args:
        tables: 'table2', 'table23' ... 'table28' -> their CSVs.

    Returns:
        (table, row, quantity) -> number.
    """
    found: dict[Key, float] = {}
    for row in tables["table2"].to_dict("records"):
        if row["algorithm"] != NAMES[BASELINE]:
            label = f"{row['algorithm']} beta={row['beta']:g}"
            found["table2", label, "change_percent"] = row["delta_percent"]
    found["table2", "agreement", "cases"] = PAPER_AGREEMENT
    found["table2", "agreement", "compared"] = 16
    found["correlation", "all", "pearson_r"] = PAPER_R
    found["correlation", "beta=1", "pearson_r"] = PAPER_R_HETEROGENEOUS
    for table, factor in {**FACTORS, **CLIENT_COUNT, **BACKBONE}.items():
        for row in tables[table].to_dict("records"):
            label = f"{row['algorithm']} {factor}={_level(row[factor])}"
            found[table, label, str(row["metric"])] = row["mean"]
            found[table, label, f"{row['metric']}_std"] = row["std"]
    return found


def _level(level: object) -> str:
    return f"{level:g}" if isinstance(level, float) else str(level)
