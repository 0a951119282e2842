"""Perplexity."""

import math


def perplexity(loss: float) -> float:
    """Return exp(loss), +inf on overflow.

    Args:
        loss: mean cross-entropy in nats.

    Returns:
        Perplexity per token.
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
