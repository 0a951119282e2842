"""Overflow in bounds: infinity with a name, never NaN."""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def never_nan(bound: Callable[P, R]) -> Callable[P, R]:
    """Make a bound report infinity where its intermediate values leave the range of float64.

    A product of zero and an overflowed factor is NaN in floating point; as a bound it is infinite.

    Args:
        bound: returns an array or a NamedTuple of arrays; all its arguments are non-negative.

    Returns:
        The same function; raises ValueError if an argument is NaN, which no bound covers.
    """

    @functools.wraps(bound)
    def guarded(*positional: P.args, **named: P.kwargs) -> R:
        for name, value in _numbers((positional, named), ""):
            if np.isnan(value).any():
                raise ValueError(f"{bound.__name__}: {name.strip('.') or 'an argument'} is NaN")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            result: Any = bound(*positional, **named)
        cleaned: R = _without_nan(result)
        return cleaned

    return guarded


def infinite(result: Any) -> tuple[str, ...]:
    """Name the fields of a bound that are infinite at some point.

    Args:
        result: a NamedTuple returned by a bound; fields may be lists.

    Returns:
        Field names in declared order, so that the first is where the overflow began.
    """
    return tuple(
        name
        for name in result._fields
        if any(np.isinf(value).any() for _, value in _numbers(getattr(result, name), ""))
    )


def _numbers(value: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, np.ndarray | float | int):
        yield name, np.asarray(value, np.float64)


def _without_nan(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return type(value)(*map(_without_nan, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_without_nan, value))
    array = np.asarray(value, np.float64)
    return np.where(np.isnan(array), np.inf, array) if np.isnan(array).any() else value
