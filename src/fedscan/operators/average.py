"""Weight averaging: theta_0 + sum_m T_m / M, one round of FedAvg (paper, equation 465)."""

from collections.abc import Sequence

from fedscan.operators.direction import Base, Direction, Expert, weighted_sum


def average(base: Base, experts: Sequence[Expert]) -> Direction:
    """Return the mean of the task vectors.

    Args:
        base: theta_0.
        experts: theta_m.

    Returns:
        The direction; its scale is 1.

    Raises:
        ValueError: if there is no expert.
    """
    if not experts:
        raise ValueError("average needs at least one expert")
    return weighted_sum(base, experts, [1.0 / len(experts)] * len(experts))
