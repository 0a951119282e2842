"""Which hyperparameter value represents an algorithm in a configuration, and how it compares.

Paper, Appendix G.4: per configuration, the value with the lowest validation perplexity averaged
over the last 10 rounds and the seeds. Runs that end non-finite are failures and are never replaced.
"""

import pandas as pd

CONFIGURATION = ["backbone", "clients", "setting", "depth", "local_steps", "beta"]
METRICS = ["train_ppl", "val_ppl", "val_ppl_last10"]
BASELINE = "fedavg"


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Select a value per configuration and algorithm and compare it with FedAvg.

    A value counts only if all its seeds completed; ties go to the value that comes first in
    canonical order. An algorithm without such a value keeps a row with value '-' and no metrics.

    Args:
        runs: one row per run that a study asks for, columns of table ``all_runs``; a run that is
            not there has status 'missing'.

    Returns:
        Rows of table ``comparison`` without the study, by configuration, then by last-10
        perplexity.
    """
    groups = runs.groupby([*CONFIGURATION, "algorithm"], sort=True)
    rows = [
        _selected(dict(zip([*CONFIGURATION, "algorithm"], key, strict=True)), group)
        for key, group in groups
    ]
    table = pd.DataFrame(rows)
    table["change_percent"] = _change(table)
    order = [*CONFIGURATION, "val_ppl_last10_mean", "algorithm"]
    return table.sort_values(order, kind="stable", na_position="last").reset_index(drop=True)


def _selected(key: dict[str, object], group: pd.DataFrame) -> dict[str, object]:
    full = {
        value: part
        for value, part in group.groupby("value", sort=True)
        if (part["status"] == "completed").all()
    }
    means = {value: float(part["val_ppl_last10"].mean()) for value, part in full.items()}
    best = min(means, key=lambda value: means[value]) if means else None
    row: dict[str, object] = {
        **key,
        "value": "-" if best is None else best,
        "values_tried": len(full),
        "values_missing": group["value"].nunique() - len(full),
        "failed_runs": int((group["status"] == "failed").sum()),
        "missing_runs": int((group["status"] == "missing").sum()),
        "seeds": 0 if best is None else len(full[best]),
    }
    for metric in METRICS:
        values = None if best is None else full[best][metric].astype(float)
        row[f"{metric}_mean"] = None if values is None else float(values.mean())
        spread = None if values is None or len(values) < 2 else float(values.std(ddof=1))
        row[f"{metric}_std"] = spread
    return row


def _change(table: pd.DataFrame) -> pd.Series:
    baseline = table[table["algorithm"] == BASELINE][[*CONFIGURATION, "val_ppl_last10_mean"]]
    joined = table[CONFIGURATION].merge(baseline, on=CONFIGURATION, how="left")
    reference = pd.to_numeric(joined["val_ppl_last10_mean"])
    return 100 * (pd.to_numeric(table["val_ppl_last10_mean"]).to_numpy() / reference - 1)
