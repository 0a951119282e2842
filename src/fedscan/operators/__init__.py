"""Merge operators: name -> function of (base, experts, own values) that prepares a direction.

Experts may be lazy: a tensor is read when an operator asks for it, and at most a few tensors of
one name exist at a time.
"""

from collections.abc import Callable

from fedscan.operators.average import average
from fedscan.operators.direction import Direction
from fedscan.operators.task_arithmetic import task_arithmetic
from fedscan.operators.ties import ties

OPERATORS: dict[str, Callable[..., Direction]] = {
    "average": average,
    "task_arithmetic": task_arithmetic,
    "ties": ties,
}
