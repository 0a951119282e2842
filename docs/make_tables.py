"""Write docs/tables.md from the declared tables: python docs/make_tables.py."""

from pathlib import Path

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


if __name__ == "__main__":
    Path(__file__).with_name("tables.md").write_text(text(), encoding="utf-8")
