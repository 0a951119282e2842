"""The comparison as aligned text, for a terminal."""

from typing import Any

import pandas as pd

from fedscan.analysis.aligned_text import Row, aligned, plus_minus
from fedscan.analysis.style import NAMES
from fedscan.experiments.comparison.selection import CONFIGURATION

LONGEST_VALUE = 48
HEADER = ("algorithm", "train ppl", "val ppl", "last-10 ppl", "vs FedAvg", "value")


def comparison_text(comparison: pd.DataFrame, text: str, tokenizer: str) -> str:
    """Return one block per study and configuration, best algorithm first.

    Args:
        comparison: table ``comparison``.
        text: where the text comes from.
        tokenizer: perplexities are per token of it.

    Returns:
        Text with aligned columns and a heading that names the data.
    """
    blocks = [f"Perplexity per {tokenizer} token, {text} text; mean ± std over seeds"]
    axes = ["study", *CONFIGURATION]
    for key, part in comparison.groupby(axes, sort=True):
        names = dict(zip(axes, key, strict=True))
        heading = ", ".join(f"{k}={v:g}" if k == "beta" else f"{k}={v}" for k, v in names.items())
        rows = [HEADER, *(_row(row) for row in part.to_dict("records"))]
        blocks.append(f"{heading}\n{aligned(rows, right=range(1, 5))}")
    return "\n\n".join(blocks) + "\n"


def _row(row: dict[str, Any]) -> Row:
    notes = _short(str(row["value"]))
    if row["failed_runs"]:
        notes += f"  ({row['failed_runs']} failed)"
    if row["missing_runs"]:
        notes += f"  ({row['missing_runs']} runs missing)"
    if row["values_missing"]:
        notes += f"  ({row['values_missing']} values incomplete)"
    change = row["change_percent"]
    return (
        NAMES[str(row["algorithm"])],
        *(
            plus_minus(row[f"{m}_mean"], row[f"{m}_std"], 2)
            for m in ("train_ppl", "val_ppl", "val_ppl_last10")
        ),
        "n/a" if pd.isna(change) else f"{change:+.1f}%",
        notes,
    )


def _short(value: str) -> str:
    """Cut a long list of hyperparameters; the comparison table has them all."""
    return value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 3]}..."
