"""The comparison as aligned text, for a terminal."""

import pandas as pd

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
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
        lines = [
            "  ".join(
                cell.ljust(width) if i in (0, 5) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        blocks.append("\n".join([heading, *lines]))
    return "\n\n".join(blocks) + "\n"


def _row(row: dict[str, object]) -> tuple[str, ...]:
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
            _plus_minus(row[f"{m}_mean"], row[f"{m}_std"])
            for m in ("train_ppl", "val_ppl", "val_ppl_last10")
        ),
        "n/a" if pd.isna(change) else f"{change:+.1f}%",
        notes,
    )


def _short(value: str) -> str:
    """Cut a long list of hyperparameters; the comparison table has them all."""
    return value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 3]}..."


def _plus_minus(mean: object, spread: object) -> str:
    if pd.isna(mean):
        return "n/a"
    return f"{mean:.2f}" if pd.isna(spread) else f"{mean:.2f} ± {spread:.2f}"
