"""Numbers beside the paper's, as aligned text."""

import pandas as pd


def numbers_text(numbers: pd.DataFrame) -> str:
    """Return one block per table.

    Args:
        numbers: table ``numbers``.

    Returns:
        Text with columns: row, quantity, ours with its interval, the paper's, note.
    """
    blocks = []
    for table, part in numbers.groupby("table", sort=False):
        rows = [("row", "quantity", "this run", "95% interval", "paper", "note")]
        rows += [_row(row) for row in part.to_dict("records")]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        blocks.append("\n".join([str(table), *lines]))
    return "\n\n".join(blocks) + "\n"


def bounds_summary(numbers: pd.DataFrame) -> str:
    """Return what a person wants to know first: checks, violations, tightness, growth.

    Args:
        numbers: table ``numbers``.

    Returns:
        Text; the full tables are in numbers.txt.
    """
    table1 = numbers[numbers["table"] == "table1"].pivot(
        index="row", columns="quantity", values="value"
    )
    lines = ["Bounds against measurements: checks, violations, largest measured / bound"]
    for check in dict.fromkeys(numbers.loc[numbers["table"] == "table1", "row"]):
        row = table1.loc[check]
        lines.append(
            f"  {check:55} {_number(row['evaluations']):>9} {_number(row['violations']):>4}"
            f" {_number(row['max_utilization']):>9}"
        )
    lines.append("Exponents in 1 - rho (paper): growth with memory at the end of training")
    fits = numbers[numbers["quantity"] == "exponent_in_1-rho"]
    for row in fits.to_dict("records"):
        lines.append(f"  {row['row']:10} {row['value']:6.2f} ({row['paper']:g})")
    return "\n".join(lines) + "\n"


def _row(row: dict[str, object]) -> tuple[str, ...]:
    interval = "" if pd.isna(row["low"]) else f"{_number(row['low'])} .. {_number(row['high'])}"
    return (
        str(row["row"]),
        str(row["quantity"]),
        _number(row["value"]),
        interval,
        _number(row["paper"]),
        str(row["note"]),
    )


def _number(value: object) -> str:
    if value is None or pd.isna(value):
        return ""
    number = float(str(value))
    if number == int(number) and abs(number) < 1e9:
        return str(int(number))
    return f"{number:.3g}"
