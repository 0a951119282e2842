"""Merging at a glance, as aligned text."""

from collections.abc import Iterator

import pandas as pd

from fedscan.analysis.aligned_text import Row, aligned, plus_minus
from fedscan.experiments.merging.numbers import (
    OPERATORS,
    Merged,
    epochs,
    merged,
    select,
    specialists,
    spread,
    zero_shot,
)


def merging_text(found: Merged, source: str) -> str:
    """Return one block per base: accuracy of each model on each task, and failures and ties.

    Args:
        found: collected tables.
        source: where the records come from.

    Returns:
        Text; swept operators at the values that score best.
    """
    head = f"Accuracy in %, {source} tasks; mean ± std over seeds; sweeps at their best values"
    return "\n\n".join([head, *(_block(found, base) for base in found.names)]) + "\n"


def _block(found: Merged, base: str) -> str:
    tasks = list(dict.fromkeys(zero_shot(found, base)["evaluated_on"]))
    chance = zero_shot(found, base).set_index("evaluated_on")["chance"]
    rows: list[Row] = [("model", *tasks, "mean", "values")]
    rows.append(("chance", *(f"{chance[t]:.1f}" for t in tasks), f"{chance.mean():.1f}", ""))
    rows.append(_row("zero-shot", zero_shot(found, base), tasks, ""))
    for epoch in epochs(found):
        rows += _of_epoch(found, base, epoch, tasks)
    paper = found.names[base]
    title = base if paper == base else f"{base} (in numbers.txt beside the paper's {paper})"
    return "\n".join((title, aligned(rows, right=range(1, len(tasks) + 2)), _remarks(found, base)))


def _of_epoch(found: Merged, base: str, epoch: int, tasks: list[str]) -> Iterator[Row]:
    for own, word in ((True, "own task"), (False, "other tasks")):
        rows = specialists(found, base, 0.0, epoch, own)
        yield _row(f"specialists, {word}, epoch {epoch}", rows, tasks, "")
    for operator, word in OPERATORS.items():
        best = select(merged(found, base, operator, 0.0, epoch))
        if best is None:
            yield (f"{word}, epoch {epoch}", *("n/a" for _ in tasks), "n/a", "no complete merge")
            continue
        values = [] if operator == "average" else [f"lambda={best.scale:g}"]
        values += [] if best.density is None else [f"d={best.density:g}"]
        yield _row(f"{word}, epoch {epoch}", best.rows, tasks, " ".join(values))


def _row(name: str, rows: pd.DataFrame, tasks: list[str], values: str) -> Row:
    cells = [plus_minus(*spread(rows[rows["evaluated_on"] == task]), 1) for task in tasks]
    return (name, *cells, plus_minus(*spread(rows), 1), values)


def _remarks(found: Merged, base: str) -> str:
    parts = [frame[frame["base"] == base] for frame in (found.accuracy, found.merges)]
    failed = sum(int((part["status"] == "failed").sum()) for part in parts)
    ties = sum(int(part["ties"].sum()) for part in parts)
    scored = sum(int(part["examples"].sum()) for part in parts)
    counts = f"{ties} ties among {scored} scored examples (the first label wins)"
    return f"{failed} failed evaluations; {counts}"
