"""The bounds at a glance, as aligned text."""

import pandas as pd

from fedscan.analysis.aligned_text import aligned, short_number


def bounds_text(numbers: pd.DataFrame) -> str:
    """Return what a person wants to know first: checks, violations, tightness, growth.

    Args:
        numbers: table ``numbers``.

    Returns:
        Text; the full tables are in numbers.txt.
    """
    table1 = numbers[numbers["table"] == "table1"]
    wide = table1.pivot(index="row", columns="quantity", values="value")
    columns = ("evaluations", "violations", "max_utilization")
    checks = [
        (f"  {check}", *(short_number(wide.loc[check, column]) for column in columns))
        for check in dict.fromkeys(table1["row"])
    ]
    fits = [
        (f"  {row['row']}", f"{row['value']:6.2f} ({row['paper']:g})")
        for row in numbers[numbers["quantity"] == "exponent_in_1-rho"].to_dict("records")
    ]
    return "\n".join(
        (
            "Bounds against measurements: checks, violations, largest measured / bound",
            aligned(checks, right=(1, 2, 3), least=(56, 9, 3, 8)),
            "Exponents in 1 - rho (paper): growth with memory at the end of training",
            aligned(fits, right=(), least=(11, 0)),
            "",
        )
    )
