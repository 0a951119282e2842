"""Which learning rate of a mixer counts: one rule for tables, figures and diagnostics."""

import math
from collections.abc import Iterable, Mapping
from typing import Any


def best_rate(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the rate with the lowest mean validation loss over seeds.

    Args:
        rows: of table ``sessa_runs``, of one task, mixer and width.

    Returns:
        Of equal means the smaller rate; a rate counts only if all its seeds were completed. None if
        none does.
    """
    losses: dict[float, list[float]] = {}
    for row in rows:
        loss = row["validation_loss"] if row["status"] == "completed" else math.inf
        losses.setdefault(row["lr"], []).append(loss)
    means = {lr: math.fsum(found) / len(found) for lr, found in losses.items()}
    best = min(means, key=lambda lr: (means[lr], lr), default=None)
    return best if best is not None and math.isfinite(means[best]) else None
