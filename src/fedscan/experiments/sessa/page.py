"""What the page says of Sessa: what each mixer keeps at the longest lag."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from fedscan.report.page import Card, number_text


def cards(numbers: Mapping[str, pd.DataFrame], _results: Path) -> Iterator[Card]:
    """Yield the headline numbers.

    Args:
        numbers: folder -> its table ``numbers``, of those that are there.

    Yields:
        Accuracies of Tables 1 and 2's first model and of what it is compared with.
    """
    if "sessa/tables" not in numbers:
        return
    rows = numbers["sessa/tables"]
    rows = rows[(rows["table"] == "table1") & rows["value"].notna()]
    words = {"soup": "SymbolSoup", "mqar": "Diffuse MQAR, all lags"}
    for row in rows.to_dict("records"):
        task, mixer = str(row["row"]).split(" ", 1)
        if mixer in ("sessa", "mha"):
            paper = "" if pd.isna(row["paper"]) else f"paper, other sizes: {row['paper']:.3f}"
            title = f"{words[task]}: accuracy of {mixer}"
            yield Card(number_text(row["value"]), title, paper)
