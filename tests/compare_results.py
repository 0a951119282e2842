"""Compare two folders of results: nothing may differ but fingerprints of code.

    python tests/compare_results.py BEFORE AFTER

For changes that must not move a number: run, keep ``results``, change, run again. Tables are
compared without ``code_hash`` and without the fingerprints in their metadata; texts and pictures
byte for byte; the page outside of the configuration and the versions it quotes. Rows of ``checks``
may come in another order. Exits with 1 and a line per difference.
"""

import json
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq

# Metadata that names code, or data that belongs to it.
IGNORED = {"code", "codes", "published", "declared", "experiments"}
UNORDERED = {"checks"}
WHOLE = {".csv", ".txt", ".png", ".svg", ".json"}
# Not results: when, how long, and what is unfinished.
SKIPPED = {"logs", "benchmarks", "checkpoints"}


def files(folder):
    """Path below the folder -> file."""
    found = {p.relative_to(folder): p for p in sorted(Path(folder).rglob("*")) if p.is_file()}
    return {path: file for path, file in found.items() if path.parts[0] not in SKIPPED}


def table(file):
    """Metadata and columns of a table, without what names code."""
    with pq.ParquetFile(file) as opened:
        data = opened.read()
    facts = json.loads((data.schema.metadata or {}).get(b"fedscan", b"{}"))
    name = facts.get("table")
    facts = without_code(facts)
    columns = data.drop_columns([c for c in data.column_names if c == "code_hash"]).to_pydict()
    if name in UNORDERED:
        rows = sorted(zip(*columns.values(), strict=True), key=repr)
        return {"table": name}, list(columns), rows
    # Text tells NaN from nothing, and equal doubles from close ones.
    return facts, list(columns), repr(columns)


def without_code(facts):
    """The metadata without fingerprints, at any depth."""
    if isinstance(facts, dict):
        return {k: without_code(v) for k, v in facts.items() if k not in IGNORED}
    return facts


def page(file):
    """The page without its pictures' bytes, the configuration and the versions."""
    text = file.read_text(encoding="utf-8")
    return re.sub(r'(?s)<section id="provenance".*?</dl>|<pre tabindex="0">.*?</pre>', "", text)


def difference(before, after):
    """What differs between two files of one path; None if nothing does."""
    if before.suffix == ".parquet":
        first, second = table(before), table(after)
        parts = zip(("metadata", "columns", "values"), first, second, strict=True)
        return next((what for what, a, b in parts if a != b), None)
    if before.suffix == ".html":
        return None if page(before) == page(after) else "text"
    if before.suffix in WHOLE or before.suffix == ".safetensors":
        same = before.read_bytes() == after.read_bytes()
        # A model's checkpoint carries the fingerprint of its code.
        return (
            None
            if same or (before.suffix == ".safetensors" and tensors(before, after))
            else "bytes"
        )
    return None


def tensors(before, after):
    """Whether two checkpoints hold the same tensors."""
    from safetensors.numpy import load_file

    first, second = load_file(before), load_file(after)
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


def compare(before, after):
    """Lines on what differs."""
    first, second = files(before), files(after)
    for path in sorted(first.keys() ^ second.keys()):
        yield f"only {'before' if path in first else 'after'}: {path}"
    for path in sorted(first.keys() & second.keys()):
        what = difference(first[path], second[path])
        if what is not None:
            yield f"{what}: {path}"


if __name__ == "__main__":
    lines = list(compare(*sys.argv[1:3]))
    print("\n".join(lines) or "no difference")
    sys.exit(bool(lines))
