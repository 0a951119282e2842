"""From what was measured over depth to rows of tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedscan.experiments.consensus.following import Followed
from fedscan.experiments.consensus.tables import CURVES, MINIMA, WINDOWS
from fedscan.measure.consensus import summarise, t_star, window_minima
from fedscan.pipeline.kept_rows import Rows

QUANTITIES = ("q_token", "q_layer")


def draw_rows(found: Followed, index: int, key: Mapping[str, Any]) -> Rows:
    """Return the rows of one draw of one variant.

    Args:
        found: measures of a batch of draws.
        index: of the draw in the batch.
        key: columns that all rows share: variant, layer, draw, hashes.

    Returns:
        Rows of tables ``consensus_curves``, ``consensus_windows`` and ``consensus_minima``.
    """
    failure = found.failures[index]
    shared = {
        **key,
        "status": "completed" if failure is None else "failed",
        "failure": failure,
    }
    curves = _curves(found, index)
    windows: list[dict[str, Any]] = []
    minima: list[dict[str, Any]] = []
    for quantity in QUANTITIES:
        values = getattr(found, quantity)[index]
        own = {**shared, "quantity": quantity}
        if failure is not None:
            empty = dict.fromkeys(("t_star", "mean", "minimum", "negative_share", "margin"))
            windows += [{**own, "token": token, **empty} for token in range(values.shape[1])]
            minima.append({**own, "first_token": None, "worst": None})
            continue
        lowest = window_minima(values)
        windows += [{**own, "token": token, **row} for token, row in _windows(values, lowest)]
        means = {"first_token": lowest[:, 0].tolist(), "worst": lowest.min(axis=1).tolist()}
        minima.append({**own, **means})
    return {
        CURVES.name: [{**shared, **row} for row in curves],
        WINDOWS.name: windows,
        MINIMA.name: minima,
    }


def _curves(found: Followed, index: int) -> list[dict[str, Any]]:
    last = found.lambda1.shape[1]
    columns: dict[str, list[Any]] = {"depth": list(range(last))}
    for name in ("lambda1", "participation", "mean_cosine", "norm"):
        columns[name] = [_number(value) for value in getattr(found, name)[index]]
    moved = {
        "step": found.step[index],
        "q_token_first": found.q_token[index, :, 0],
        "q_layer_first": found.q_layer[index, :, 0],
        "q_token_mean": found.q_token[index].mean(axis=1),
        "q_layer_mean": found.q_layer[index].mean(axis=1),
    }
    for name, values in moved.items():
        columns[name] = [None, *(_number(value) for value in values)]
    heads = [None] * (last - 1) if found.top_head is None else found.top_head[index].tolist()
    # A failed draw's step sizes are no numbers, and the largest of them is none.
    failed_at = int(found.failed_at[index])
    kept = [head if depth < failed_at else None for depth, head in enumerate(heads, 1)]
    columns["top_head"] = [None, *kept]
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _windows(values: np.ndarray, lowest: np.ndarray) -> list[tuple[int, dict[str, Any]]]:
    run, shortest = summarise(values), t_star(lowest)
    rows = []
    for token in range(values.shape[1]):
        margin = float(run.margin[token])
        row = {
            "t_star": int(shortest[token]) or None,
            "mean": float(run.mean[token]),
            "minimum": float(run.minimum[token]),
            "negative_share": float(run.negative_share[token]),
            "margin": margin if np.isfinite(margin) else None,
        }
        rows.append((token, row))
    return rows


def _number(value: float) -> float | None:
    """Return None for what was not measured."""
    return None if np.isnan(value) else float(value)
