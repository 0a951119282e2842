"""Where a whole model's tokens end: means over draws at a few depths."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedscan.experiments.consensus.following import Followed
from fedscan.experiments.consensus.variants import Iteration, Subject, followed
from fedscan.measure.consensus import t_star, window_minima
from fedscan.models.architecture import MAMBA2, Architecture

UNMEASURABLE = "have neither gate nor interaction term"
UNMEASURED = (
    "lambda1", "participation", "mean_cosine", "initial_lambda1", "t_star_largest",
    "without_t_star",
)  # fmt: skip


def unmeasurable(shape: Architecture) -> str | None:
    """Return why a model's layers are not iterated, None if they are.

    Args:
        shape: architecture.
    """
    others = sorted({kind for kind in shape.mixers if kind != MAMBA2})
    return f"{' and '.join(others)} layers {UNMEASURABLE}" if others else None


def end_rows(
    one: Iteration, subject: Subject, ids: np.ndarray, applied: Sequence[int], batch: int
) -> list[dict[str, Any]]:
    """Iterate all draws, and average them at some depths.

    Args:
        one: variant; its depth is at least the largest of ``applied``.
        subject: the model.
        ids: token ids, (draws, tokens).
        applied: depths to look at.
        batch: draws computed together.

    Returns:
        A row per depth, with the columns of ``run_tables.OUTCOME``.
    """
    draws = len(ids)
    batches = [range(first, min(first + batch, draws)) for first in range(0, draws, batch)]
    parts = [followed(one, subject, ids[b.start : b.stop], b) for b in batches]
    return [_row(parts, depth) for depth in applied]


def unmeasured(applied: Sequence[int], status: str, reason: str) -> list[dict[str, Any]]:
    """Return rows of a model that was not iterated.

    Args:
        applied: depths that were asked for.
        status: 'failed' or 'skipped'.
        reason: why.

    Returns:
        A row per depth.
    """
    nothing: Mapping[str, Any] = dict.fromkeys(UNMEASURED)
    facts = {"status": status, "failure": reason, "draws": 0, "failed_draws": 0}
    return [{"applied": depth, **facts, **nothing} for depth in applied]


def _row(parts: Sequence[Followed], depth: int) -> dict[str, Any]:
    failed = np.concatenate([part.failed_at for part in parts]) <= depth
    failures = [failure for part in parts for failure in part.failures]
    if failed.all():
        reason = next(f for f, stopped in zip(failures, failed, strict=True) if stopped)
        (row,) = unmeasured([depth], "failed", str(reason))
        return row | {"failed_draws": len(failed)}
    good = ~failed

    def mean(name: str, at: int) -> float:
        values = np.concatenate([getattr(part, name)[:, at] for part in parts])
        return float(values[good].mean())

    q = np.concatenate([part.q_token for part in parts])[good, :depth]
    shortest = t_star(window_minima(np.moveaxis(q, 1, 0)))
    without = int((shortest == 0).sum())
    return {
        "applied": depth,
        "status": "completed",
        "failure": next((f for f, stopped in zip(failures, failed, strict=True) if stopped), None),
        "draws": int(good.sum()),
        "failed_draws": int(failed.sum()),
        "lambda1": mean("lambda1", depth),
        "participation": mean("participation", depth),
        "mean_cosine": mean("mean_cosine", depth),
        "initial_lambda1": mean("lambda1", 0),
        "t_star_largest": int(shortest.max()) if not without else None,
        "without_t_star": without,
    }
