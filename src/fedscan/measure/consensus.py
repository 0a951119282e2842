"""How far tokens agree, and when a sequence of interactions is positive on average.

Silvestre, Rodríguez Abella and Tabuada, "The Attention Within". NumPy in float64: a model's own
precision decides its tokens, not what is said of them.
"""

from typing import NamedTuple

import numpy as np


class Agreement(NamedTuple):
    """Measures of the Gram matrix of cosines, each of the leading shape.

    Attributes:
        lambda1: largest eigenvalue over the number of tokens, in [1 / tokens, 1]; signs of tokens
            do not matter.
        participation: 1 / sum of squared scaled eigenvalues, in [1, tokens].
        mean_cosine: mean cosine of two different tokens; it sees signs.
    """

    lambda1: np.ndarray
    participation: np.ndarray
    mean_cosine: np.ndarray


class Run(NamedTuple):
    """What a sequence of interactions is like, each of the shape of one of its entries.

    Attributes:
        mean: over the run.
        minimum: over the run.
        negative_share: share of entries below 0.
        margin: sum of positive entries / sum of negative ones without sign: the factor by which
            negative ones could be weighted before the run's mean is negative; infinite if none is.
    """

    mean: np.ndarray
    minimum: np.ndarray
    negative_share: np.ndarray
    margin: np.ndarray


def norms(tokens: np.ndarray) -> np.ndarray:
    """Return the tokens' Euclidean norms.

    Args:
        tokens: (..., tokens, channels).

    Returns:
        (..., tokens) float64.
    """
    x = np.asarray(tokens, np.float64)
    return np.sqrt(np.einsum("...n,...n->...", x, x))


def agreement(tokens: np.ndarray, lengths: np.ndarray) -> Agreement:
    """Measure tokens by the directions they have.

    Args:
        tokens: (..., tokens, channels); at least two tokens.
        lengths: their ``norms``, each with a direction.

    Returns:
        Each (...), float64.
    """
    x = np.asarray(tokens, np.float64) / lengths[..., None]
    gram = x @ np.swapaxes(x, -1, -2)
    count = x.shape[-2]
    largest = np.linalg.eigvalsh(gram)[..., -1] / count
    squares = np.einsum("...ij,...ij->...", gram, gram)
    off_diagonal = gram.sum((-1, -2)) - np.trace(gram, axis1=-2, axis2=-1)
    return Agreement(largest, count**2 / squares, off_diagonal / (count * (count - 1)))


def without_direction(lengths: np.ndarray) -> np.ndarray:
    """Say which tokens have no direction.

    Args:
        lengths: their ``norms``, any shape.

    Returns:
        The same shape, bool: not finite, or zero.
    """
    return ~np.isfinite(lengths) | (lengths == 0)


def window_minima(values: np.ndarray) -> np.ndarray:
    """Return the smallest mean over a window, for every length of a window.

    w(T) = min over t of (1/T) sum of q(t+1) .. q(t+T), whole windows inside the run only. It is not
    monotone in T, but w(aT) >= w(T) for whole a >= 1.

    Args:
        values: q, (steps, ...), finite.

    Returns:
        (steps, ...) float64; entry T - 1 is w(T).
    """
    q = np.asarray(values, np.float64)
    found = np.empty_like(q)
    # Sums grow by an entry per length: differences of prefix sums would lose small values.
    sums = q
    for length in range(1, len(q) + 1):
        if length > 1:
            sums = sums[:-1] + q[length - 1 :]
        found[length - 1] = sums.min(axis=0) / length
    return found


def t_star(minima: np.ndarray) -> np.ndarray:
    """Return the shortest window whose mean is positive wherever it lies in the run.

    Args:
        minima: result of ``window_minima``, (steps, ...).

    Returns:
        (...) int64; 0 where no length has w(T) > 0.
    """
    positive = minima > 0
    return np.where(positive.any(axis=0), positive.argmax(axis=0) + 1, 0)


def summarise(values: np.ndarray) -> Run:
    """Return what a sequence of interactions is like.

    Args:
        values: q, (steps, ...), finite.

    Returns:
        Each (...), float64.
    """
    q = np.asarray(values, np.float64)
    positive, negative = np.maximum(q, 0).sum(axis=0), np.maximum(-q, 0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(negative > 0, positive / negative, np.inf)
    return Run(q.mean(axis=0), q.min(axis=0), (q < 0).mean(axis=0), margin)
