"""The hyperparameters of the federated algorithms, as lists of values to run.

Made from what the algorithms' files declare: their factories' arguments, annotations, docstrings.
"""

import re
from typing import Any, Literal

from pydantic import Field, create_model

from fedscan import ranges
from fedscan.config.types import Grid, Section
from fedscan.declared import Declared, algorithms

# What an annotation may be made of.
VOCABULARY = {name: getattr(ranges, name) for name in dir(ranges) if name[0].isupper()}
VOCABULARY["Literal"] = Literal
BASELINE = "fedavg"


def section(declared: Declared) -> type[Section]:
    """Return the section of an algorithm's values.

    Args:
        declared: what its file declares.

    Returns:
        A list of values per hyperparameter.
    """
    fields: dict[str, Any] = {
        name: (
            Grid[eval(found.annotation, VOCABULARY)],  # type: ignore[misc]
            Field(description=found.meaning),
        )
        for name, found in declared.hyperparameters.items()
    }
    words = re.split(r"[^A-Za-z0-9]+", declared.label)
    title = "".join(word[:1].upper() + word[1:] for word in words)
    made: type[Section] = create_model(title, __base__=Section, __doc__=declared.summary, **fields)
    return made


def _fields() -> dict[str, Any]:
    """Every algorithm's section; all but the baseline's may be left out."""
    fields: dict[str, Any] = {}
    for name, declared in algorithms().items():
        made = section(declared)
        fields[name] = (made, made()) if name == BASELINE else (made | None, None)
    return fields


Hyperparameters = create_model(
    "Hyperparameters",
    __base__=Section,
    __doc__="Per algorithm, lists of values; the values run are the product of an algorithm's"
    " lists.",
    **_fields(),
)
AlgorithmName = Literal[tuple(algorithms())]  # type: ignore[valid-type]
