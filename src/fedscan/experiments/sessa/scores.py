"""Accuracy of a model on a split, as a whole and by what is known of the answers."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedscan.experiments.sessa.inputs import Row
from fedscan.problems.sequence_task import Scored

# Lags and blocks are counted in buckets that double.
SMALLEST_BUCKET = 4
POSITION_BUCKETS = 4


def accuracy_rows(rows: Sequence[Row], scored: Scored) -> Iterator[dict[str, Any]]:
    """Yield rows of table ``sessa_accuracy``, without unit and split.

    Args:
        rows: of ``sessa_examples``, one split.
        scored: every answer of them, in order.

    Yields:
        All answers together, then by class, order, shorter block, pairs, lag, position.
    """
    everything = np.ones(len(scored.correct), bool)
    yield _row("all", "", everything, rows, scored)
    for group, values in _groups(rows, scored):
        for value in sorted(set(values), key=_order):
            chosen = np.array([found == value for found in values])
            yield _row(group, value, chosen, rows, scored)


def _order(value: str) -> tuple[float, str]:
    head = value.split("-")[0]
    return (float(head), value) if head.isdigit() else (math.inf, value)


def _groups(rows: Sequence[Row], scored: Scored) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of a grouping and every answer's group."""
    for name, column in (("class", "label"), ("order", "order"), ("pairs", "pairs")):
        if rows[0][column] is not None:
            yield name, [str(rows[i][column]) for i in scored.sequence]
    if rows[0]["shortest_block"] is not None:
        yield "shortest_block", [_bucket(rows[i]["shortest_block"]) for i in scored.sequence]
    lags = np.concatenate([np.array(row["lags"], int) for row in rows])
    if len(lags):
        yield "lag", [_bucket(int(lag)) for lag in lags]
    if len(rows[0]["places"]) > POSITION_BUCKETS and not len(lags):
        yield (
            "position",
            [
                f"{int(POSITION_BUCKETS * place / row['length']) + 1} of {POSITION_BUCKETS}"
                for row in rows
                for place in row["places"]
            ],
        )


def _bucket(value: int) -> str:
    """Return the doubling bucket of a number, by its first and last."""
    if value < SMALLEST_BUCKET:
        return f"0-{SMALLEST_BUCKET - 1}"
    low = SMALLEST_BUCKET
    while value >= 2 * low:
        low *= 2
    return f"{low}-{2 * low - 1}"


def _row(
    group: str, value: str, chosen: np.ndarray, rows: Sequence[Row], scored: Scored
) -> dict[str, Any]:
    found = np.unique(scored.sequence[chosen])
    sizes = [rows[i]["text_bytes"] for i in found]
    ceilings = [rows[i]["ceiling_correct"] for i in found]
    loss = float(scored.loss[chosen].mean())
    bits = None
    if group == "all" and sizes[0] is not None:
        bits = float(scored.loss.sum()) / math.log(2) / sum(sizes)
    return {
        "group": group,
        "value": value,
        "sequences": len(found),
        "answers": int(chosen.sum()),
        "accuracy": float(scored.correct[chosen].mean()),
        "top5": float(scored.top[chosen].mean()),
        "loss": loss,
        "bits_per_byte": bits,
        "ceiling": None if ceilings[0] is None else float(np.mean(ceilings)),
    }
