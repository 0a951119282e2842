"""Tokens followed over depth: what is measured of every draw at every depth."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedscan.measure.consensus import agreement, norms, without_direction
from fedscan.models.depth_iteration import Layer, Position, Update, trajectory


class Followed(NamedTuple):
    """Measures of some draws; NaN from where a draw failed.

    Attributes:
        lambda1: (draws, depth + 1).
        participation: (draws, depth + 1).
        mean_cosine: (draws, depth + 1).
        norm: mean norm of a token, (draws, depth + 1).
        step: mean of |tau F| / |x|, x before the layer, (draws, depth).
        q_token: (draws, depth, tokens).
        q_layer: (draws, depth, tokens).
        top_head: head with the largest mean step size, (draws, depth); None without heads.
        failures: per draw, why it has no measures from some depth on; None: it has all.
        failed_at: per draw, the first depth without measures; depth + 1 where there is none.
    """

    lambda1: np.ndarray
    participation: np.ndarray
    mean_cosine: np.ndarray
    norm: np.ndarray
    step: np.ndarray
    q_token: np.ndarray
    q_layer: np.ndarray
    top_head: np.ndarray | None
    failures: list[str | None]
    failed_at: np.ndarray


@torch.inference_mode()
def follow(start: Tensor, layers: Iterable[Layer], depth: int, update: Update) -> Followed:
    """Iterate over depth and measure.

    Args:
        start: (draws, tokens, n).
        layers: at least ``depth`` layers.
        depth: layers applied.
        update: how tokens move.

    Returns:
        Measures, in float64. A draw whose token has no direction (zero, or not finite) is a failed
        one from that depth on; the others go on.
    """
    draws, tokens, _ = start.shape
    whole = [np.full((draws, depth + 1), np.nan) for _ in range(4)]
    step = np.full((draws, depth), np.nan)
    q_token, q_layer = (np.full((draws, depth, tokens), np.nan) for _ in range(2))
    heads: list[np.ndarray] = []
    failures: list[str | None] = [None] * draws
    failed_at = np.full(draws, depth + 1)
    before = np.full((draws, tokens), np.nan)
    for position in trajectory(start, layers, depth, update):
        at = position.depth
        x = position.tokens.cpu().numpy()
        lengths = norms(x)
        _note_failures(lengths, position, failures, failed_at)
        good = np.array([failure is None for failure in failures])
        if good.any():
            found = agreement(x[good], lengths[good])
            for kept, values in zip(whole, (*found, lengths[good].mean(-1)), strict=True):
                kept[good, at] = values
        if position.applied is not None:
            applied = position.applied
            moved = torch.linalg.vector_norm(applied.output.double(), dim=-1).cpu().numpy()
            with np.errstate(invalid="ignore", over="ignore"):
                step[good, at - 1] = (update.tau * moved[good] / before[good]).mean(-1)
            q_token[good, at - 1] = applied.q_token.cpu().numpy()[good]
            q_layer[good, at - 1] = applied.q_layer.cpu().numpy()[good]
            if applied.step_sizes is not None:
                heads.append(applied.step_sizes.argmax(-1).cpu().numpy())
        before = lengths
    top_head = np.stack(heads, axis=1) if heads else None
    return Followed(*whole, step, q_token, q_layer, top_head, failures, failed_at)


def _note_failures(
    lengths: np.ndarray, position: Position, failures: list[str | None], failed_at: np.ndarray
) -> None:
    without = without_direction(lengths)
    for draw in np.flatnonzero(without.any(axis=1)):
        if failures[draw] is None:
            token = int(without[draw].argmax())
            word = "zero" if lengths[draw, token] == 0 else "not finite"
            failures[draw] = f"depth {position.depth}, draw's token {token} is {word}"
            failed_at[draw] = position.depth
    # An interaction term may be non-finite where the tokens still are not.
    if position.applied is None:
        return
    for name in ("q_token", "q_layer"):
        values = getattr(position.applied, name)
        broken = ~torch.isfinite(values).cpu().numpy()
        for draw in np.flatnonzero(broken.any(axis=1)):
            if failures[draw] is None:
                token = int(broken[draw].argmax())
                failures[draw] = f"depth {position.depth}, {name} of token {token} is not finite"
                failed_at[draw] = position.depth
