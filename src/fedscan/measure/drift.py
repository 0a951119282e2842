"""How far clients and server moved in a round, and how much the clients agreed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from fedscan.params.algebra import dot, norm, subtract


class Drift(NamedTuple):
    """Norms and angles of one round; sequences have one entry per client."""

    client_drift: tuple[float, ...]
    cosine_to_mean: tuple[float, ...]
    mean_update_norm: float
    update_dispersion: float
    server_displacement: float


def drift(
    updates: Sequence[Mapping[str, Tensor]],
    weights: Sequence[float],
    mean_update: Mapping[str, Tensor],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
) -> Drift:
    """Measure one round (paper, Appendix E).

    Args:
        updates: local minus global parameters, one per client.
        weights: p_k, summing to one.
        mean_update: sum_k p_k updates_k.
        before: global parameters the clients received.
        after: global parameters after the server's update.

    Returns:
        ||update_k||; cos(update_k, mean), 0 where a vector is zero; ||mean||;
        sum_k p_k ||update_k - mean||^2; ||after - before||.
    """
    norms = tuple(norm(update) for update in updates)
    mean_norm = norm(mean_update)
    products = [dot(update, mean_update) for update in updates]
    cosines = tuple(
        product / (size * mean_norm) if size and mean_norm else 0.0
        for product, size in zip(products, norms, strict=True)
    )
    deviations = (norm(subtract(update, mean_update)) for update in updates)
    dispersion = sum(p * d * d for p, d in zip(weights, deviations, strict=True))
    return Drift(norms, cosines, mean_norm, dispersion, norm(subtract(after, before)))
