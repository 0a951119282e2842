"""Lemmas B.3 and B.4: gradient variance and client disagreement."""

import numpy as np
from numpy.typing import ArrayLike

from fedscan.theory.constants import Floats
from fedscan.theory.overflow import never_nan


@never_nan
def variance_bound(gradient: ArrayLike, batch_size: ArrayLike) -> Floats:
    """Return the bound G_{SSM,R}^2 / Xi on the variance of a mini-batch gradient (Lemma B.3).

    Args:
        gradient: G_{SSM,R}.
        batch_size: independent sequences Xi.

    Returns:
        The bound per point.
    """
    return np.asarray(np.square(np.asarray(gradient, float)) / np.asarray(batch_size, float))


def weighted_tv(weights: ArrayLike, distances: ArrayLike) -> float:
    """Return H_TV = sum_k p_k TV(P_k, P_mean)^2.

    Args:
        weights: (clients) p_k, summing to one.
        distances: (clients) total variation distances in [0, 1].

    Returns:
        A number in [0, 1].
    """
    p, tv = np.asarray(weights, float), np.asarray(distances, float)
    return float(np.sum(p * tv**2))


@never_nan
def disagreement_bound(gradient: ArrayLike, heterogeneity: ArrayLike) -> Floats:
    """Return the bound 4 G^2 H_TV on sum_k p_k ||grad L_k - grad f||_F^2 (Lemma B.4).

    Args:
        gradient: G_{SSM,R}, or G_SSM at a point.
        heterogeneity: H_TV over whole sequences.

    Returns:
        The bound per point.
    """
    return np.asarray(4 * np.square(np.asarray(gradient, float)) * np.asarray(heterogeneity, float))
