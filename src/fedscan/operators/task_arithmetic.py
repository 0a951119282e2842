"""Task Arithmetic (Ilharco et al. 2023): theta_0 + lambda sum_m T_m (paper, Table 31)."""

from collections.abc import Sequence

from fedscan.operators.direction import Base, Direction, Expert, weighted_sum


def task_arithmetic(base: Base, experts: Sequence[Expert]) -> Direction:
    """Return the sum of the task vectors.

    Args:
        base: theta_0.
        experts: theta_m.

    Returns:
        The direction; lambda = 1/M makes it the average.

    Raises:
        ValueError: if there is no expert.
    """
    if not experts:
        raise ValueError("task_arithmetic needs at least one expert")
    return weighted_sum(base, experts, [1.0] * len(experts))
