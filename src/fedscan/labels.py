"""One spelling per number in paths and tables, and the product of lists of values.

Imported by the Snakefile, so it never loads torch.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

NO_HYPERPARAMETERS = "-"
# Canonical spelling, and the pairs it is made of.
Combination = tuple[str, tuple[tuple[str, Any], ...]]


def label(value: float | str) -> str:
    """Return the canonical spelling of a number, or a word unchanged.

    Args:
        value: number, number as text, or word.

    Returns:
        The shortest text that reads back as the same double; integers without a point. The same
        for every spelling of a number: 0.0005, 5e-4 and "5E-04" give "0.0005".

    Raises:
        ValueError: for NaN, infinities and booleans, which have no place in a path.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value!r} has no label; use 0 or 1")
    try:
        number = float(value)
    except ValueError:
        return str(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{value!r} is not finite and has no label")
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


def axis_label(value: float | str) -> str:
    """Return the label of an axis value; names stay as they are, even if they look like numbers.

    Args:
        value: number or name.

    Returns:
        Text for a path; settings "1" and "01" are two settings.
    """
    return value if isinstance(value, str) else label(value)


def value_label(hyperparameters: Mapping[str, Any]) -> str:
    """Return the canonical spelling of a combination of hyperparameters.

    Args:
        hyperparameters: name -> number or word.

    Returns:
        ``name=value,...`` sorted by name; ``-`` when there are none.
    """
    parts = [f"{name}={label(value)}" for name, value in sorted(hyperparameters.items())]
    return ",".join(parts) or NO_HYPERPARAMETERS


def value_file(value: str) -> str:
    """Return the name of the model file of a value.

    Args:
        value: label made by ``value_label``.

    Returns:
        The label; ``none.safetensors`` where there are no hyperparameters, since commands take a
        name that begins with a dash for an option.
    """
    return f"{'none' if value == NO_HYPERPARAMETERS else value}.safetensors"


def round_file(value: str, round_index: int) -> str:
    """Return where the model of a round is kept, below its job's folder.

    Args:
        value: label made by ``value_label``.
        round_index: communication round; 0 is the initial model.

    Returns:
        ``models/mu=0.05/round=10.safetensors``.
    """
    stem = value_file(value).removesuffix(".safetensors")
    return f"models/{stem}/round={round_index}.safetensors"


def combinations(lists: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """Return every combination of hyperparameter values, the product of their lists.

    Args:
        lists: name -> values.

    Returns:
        (label, pairs sorted by name) in the order of the lists.
    """
    names = sorted(lists)
    products = itertools.product(*(lists[name] for name in names))
    pairs = (tuple(zip(names, values, strict=True)) for values in products)
    return [(value_label(dict(pair)), pair) for pair in pairs]
