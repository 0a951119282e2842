"""Ranges of numbers, as types: of hyperparameters and of the configuration's values."""

from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
OpenShare = Annotated[float, Gt(0), Lt(1)]
Momentum = Annotated[float, Ge(0), Lt(1)]
Count = Annotated[int, Ge(1)]
