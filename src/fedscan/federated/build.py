"""From a name and values to an algorithm."""

import inspect
from collections.abc import Mapping
from typing import Any

from fedscan.federated.algorithm import Algorithm
from fedscan.federated.algorithms import ALGORITHMS


def build(name: str, hyperparameters: Mapping[str, Any], facts: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm; a factory that asks for facts of the model gets them.

    Args:
        name: registry name.
        hyperparameters: name -> value.
        facts: what a factory may ask for by an argument's name, e.g. ``permutation_groups``.

    Returns:
        The algorithm.
    """
    factory = ALGORITHMS[name]
    asked = inspect.signature(factory).parameters
    return factory(**hyperparameters, **{k: v for k, v in facts.items() if k in asked})
