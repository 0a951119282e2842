"""What theory sees in practice: which measured quantity orders the algorithms as outcomes do.

Within one configuration and seed, every algorithm started from the same model and data, so their
ranks can be compared: the rank by a quantity, averaged over the rounds, with the rank by last-10
perplexity. Ours, beyond the paper.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from fedscan.analysis.intervals import mean
from fedscan.analysis.numbers import Number
from fedscan.experiments.comparison.expectations import expectation
from fedscan.experiments.comparison.selection import BASELINE, CONFIGURATION
from fedscan.experiments.comparison.summary_tables import AVERAGED
from fedscan.experiments.comparison.tables import IN_PROJ_BLOCKS

# Column of table ``quantities`` -> what a reader calls it.
WORDS = {quantity.name: quantity.words for quantity in AVERAGED}
EXPECTATION = "expectation of Table 2"
FEWEST_ALGORITHMS = 3
_ROUNDS = {
    "client_drift": "client_drift_mean",
    "client_drift_max": "client_drift_max",
    "update_dispersion": "update_dispersion",
    "mean_update_norm": "mean_update_norm",
    "server_displacement": "server_displacement",
    "cosine_to_mean": "cosine_to_mean",
}


def run_quantities(
    rounds: pd.DataFrame, clients: pd.DataFrame, mixers: pd.DataFrame, heads: pd.DataFrame
) -> pd.DataFrame:
    """Average the recorded quantities of each run over its rounds.

    Args:
        rounds: table ``rounds`` of one job.
        clients: its table ``clients``.
        mixers: its table ``mixers``; empty for a model without Mamba2 layers.
        heads: its table ``heads``.

    Returns:
        A row per value with the quantities' columns; NaN where the model has no such block.
    """
    by_value = rounds.groupby("value")
    found = {name: by_value[column].mean() for name, column in _ROUNDS.items()}
    found["gradient_norm"] = clients.groupby("value")["gradient_norm"].mean()
    per_round = heads.groupby(["value", "round"])
    for name, series in (
        ("rho_hat", per_round["decay_max"].max()),
        ("median_decay", per_round["decay_median"].median()),
    ):
        found[name] = series.groupby("value").mean()
    for block in IN_PROJ_BLOCKS:
        norm = f"spectral_norm_{block}"
        found[norm] = mixers.groupby("value")[norm].mean()
    table = pd.DataFrame(found, index=by_value.size().index)[list(WORDS)]
    return table.astype(float).reset_index()


def outcomes(runs: pd.DataFrame, quantities: pd.DataFrame, between: str) -> pd.DataFrame:
    """Join the selected runs' quantities with what came of them.

    Args:
        runs: selected, completed runs of the grid: configuration, algorithm, seed, value,
            val_ppl_last10.
        quantities: table ``quantities``.
        between: see ``expectations.expectation``.

    Returns:
        The runs with the quantities' columns and the expectation, FedAvg's being 0.
    """
    key = [*CONFIGURATION, "algorithm", "seed", "value"]
    joined = runs[[*key, "val_ppl_last10"]].merge(quantities, on=key, validate="1:1")
    cases = zip(joined["algorithm"], joined["beta"], strict=True)
    signs = [0 if a == BASELINE else expectation(a, beta, between) for a, beta in cases]
    return joined.assign(**{EXPECTATION: np.array(signs, float)})


def rank_correlations(joined: pd.DataFrame) -> pd.DataFrame:
    """Correlate, within each configuration and seed, ranks by a quantity and by the outcome.

    Args:
        joined: result of ``outcomes``.

    Returns:
        A row per configuration, seed and quantity: spearman, and concordant, the share of pairs of
        algorithms with different values that the quantity orders as the outcome does. Without
        at least three algorithms, or where the quantity does not vary, there is no row.
    """
    rows = []
    for key, part in joined.groupby([*CONFIGURATION, "seed"], sort=True):
        if len(part) < FEWEST_ALGORITHMS:
            continue
        outcome = part["val_ppl_last10"].to_numpy(float)
        for quantity in (*WORDS, EXPECTATION):
            values = part[quantity].to_numpy(float)
            # An algorithm without an expectation takes no part in the expectations' order.
            taken = np.isfinite(values) if quantity == EXPECTATION else np.full(len(values), True)
            values, reached = values[taken], outcome[taken]
            if len(values) < FEWEST_ALGORITHMS or not np.isfinite(values).all():
                continue
            if np.ptp(values) == 0 or np.ptp(reached) == 0:
                continue
            rows.append(
                {
                    **dict(zip([*CONFIGURATION, "seed"], key, strict=True)),
                    "quantity": quantity,
                    "spearman": float(stats.spearmanr(values, reached).statistic),
                    "concordant": _concordant(values, reached),
                }
            )
    columns = [*CONFIGURATION, "seed", "quantity", "spearman", "concordant"]
    return pd.DataFrame(rows, columns=columns)


def ordering(correlations: pd.DataFrame) -> Iterator[Number]:
    """Yield how well each quantity orders the algorithms, strongest first, over all and per beta.

    Args:
        correlations: result of ``rank_correlations``.

    Yields:
        Means over configurations of the seeds' means, with a t interval over configurations (from
        two on).
    """
    strength = correlations.groupby("quantity")["spearman"].mean().abs()
    names = list(strength.sort_values(ascending=False, kind="stable").index)
    note = f"{len(names)} quantities compared: the strongest of many looks stronger than it is"
    for name in names:
        mine = correlations[correlations["quantity"] == name]
        parts = [("", mine)]
        parts += [(f" beta={beta:g}", part) for beta, part in mine.groupby("beta")]
        for suffix, part in parts:
            means = part.groupby(CONFIGURATION)[["spearman", "concordant"]].mean()
            row = f"{WORDS.get(name, name)}{suffix}"
            value, low, high = mean(means["spearman"].to_numpy(float))
            # No correlation is beyond 1; NaN, where there is no interval, stays.
            low, high = float(np.maximum(low, -1.0)), float(np.minimum(high, 1.0))
            yield Number("practice", row, "mean_spearman", value, low, high, note)
            yield Number("practice", row, "concordant_pairs", float(means["concordant"].mean()))
            yield Number("practice", row, "configurations", len(means))


def _concordant(values: np.ndarray, outcome: np.ndarray) -> float:
    first, second = np.triu_indices(len(values), 1)
    product = (values[first] - values[second]) * (outcome[first] - outcome[second])
    decided = product != 0
    return float((product[decided] > 0).mean()) if decided.any() else np.nan
