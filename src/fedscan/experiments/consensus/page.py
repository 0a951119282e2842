"""What the page says of consensus: where the paper's two headline curves end in this run."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from fedscan.report.page import Card, number_text


def cards(numbers: Mapping[str, pd.DataFrame], _results: Path) -> Iterator[Card]:
    """Yield the headline numbers.

    Args:
        numbers: folder -> its table ``numbers``, of those that are there.

    Yields:
        Per model of Figure 1 and variant, where lambda1 ends, beside the paper's checkpoint.
    """
    if "consensus/tables" not in numbers:
        return
    rows = numbers["consensus/tables"]
    rows = rows[(rows["table"] == "figure1") & (rows["quantity"] == "lambda1_end")]
    for row in rows.dropna(subset="value").to_dict("records"):
        paper = "" if pd.isna(row["paper"]) else f"mamba2-130m: {number_text(row['paper'])}"
        title = f"λ̄₁ at the end of the depth, {row['row']}"
        yield Card(number_text(row["value"]), title, paper)
