"""What the page says of the bounds: how many values were above theirs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from fedscan.report.page import Card, violations_card


def cards(numbers: Mapping[str, pd.DataFrame], _results: Path) -> Iterator[Card]:
    """Yield the headline numbers.

    Args:
        numbers: folder -> its table ``numbers``, of those that are there.

    Yields:
        Checked values and violations.
    """
    if "bounds" in numbers:
        rows = numbers["bounds"]
        title = "bounds: checked values above their bound"
        yield violations_card(rows[rows["table"] == "table1"], title)
