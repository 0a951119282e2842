"""Write docs/tables.md, and the table of docs/algorithms.md, from what the code declares.

python docs/make_tables.py
"""

import re
from pathlib import Path

from fedscan.declared import algorithms
from fedscan.experiments.registry import tables

HEAD = """# Every table

Written by `python docs/make_tables.py`; a test keeps it in step with the code, and another compares
the places with a finished run. `fedscan schema TABLE` prints one table.

All are Parquet files below `results/`. Keys of a folder (`beta=0.7/…`) are not columns too.
A file's metadata key `fedscan` holds versions, configuration and the code's fingerprint as JSON.
"""


def text():
    """The whole document."""
    parts = [HEAD]
    for name, table in tables().items():
        where = ", ".join(f"`{place}.parquet`" for place in table.places).replace("*", "…")
        parts.append(f"\n## {name}\n\n{where}\n\n| column | type | unit | meaning |")
        parts.append("\n| --- | --- | --- | --- |\n")
        for column in table.columns:
            dtype = f"`{column.dtype}`{' or null' if column.nullable else ''}"
            cells = (f"`{column.name}`", dtype, column.unit, column.meaning)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


ALGORITHMS = Path(__file__).with_name("algorithms.md")
START, END = "<!-- made by docs/make_tables.py -->\n", "<!-- end of what is made -->\n"
CHANGES = {-1: "lower", 0: "similar", 1: "higher"}


def declared():
    """What the algorithms' files declare, as a table."""
    head = "| name, label | hyperparameters | β = 0; β = 1 | local steps | server's step |"
    parts = [f"{head}\n| --- | --- | --- | --- | --- |\n"]
    for name, found in algorithms().items():
        values = [
            f"`{key}` ({value.annotation}): {value.meaning}"
            for key, value in found.hyperparameters.items()
        ]
        changes = found.expectation and "; ".join(CHANGES[sign] for sign in found.expectation)
        cells = (
            f"`{name}`, {found.label}",
            "<br>".join(values),
            changes,
            found.local_bound,
            found.server_bound,
        )
        shown = (str(cell or "-").replace("|", "\\|") for cell in cells)
        parts.append("| " + " | ".join(shown) + " |\n")
    return "".join(parts)


def algorithms_text():
    """docs/algorithms.md with its table as the code declares it."""
    pattern = re.compile(f"(?<={re.escape(START)}).*?(?={re.escape(END)})", re.DOTALL)
    return pattern.sub(lambda _: declared(), ALGORITHMS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    Path(__file__).with_name("tables.md").write_text(text(), encoding="utf-8")
    ALGORITHMS.write_text(algorithms_text(), encoding="utf-8")
