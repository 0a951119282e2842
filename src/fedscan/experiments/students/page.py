"""What the page says of federated learners: how many values were above their bound."""

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
    if "student_tables" in numbers:
        rows = numbers["student_tables"]
        rows = rows[(rows["table"] == "checks") & (rows["row"] == "all")]
        yield violations_card(rows, "federated learners: values above their bound")
