"""The typed configuration: every experiment's sections as one class.

``workflow/schemas/config.schema.json`` is exported from it. Configuration stops at the stages:
nothing below them sees these classes. Reading files and wording errors is in
``fedscan.config.files``.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import create_model

from fedscan.config.types import Problem, Section
from fedscan.config.workflow import Workflow
from fedscan.experiments.registry import EXPERIMENTS


def compose(sections: Mapping[str, Any]) -> type[Section]:
    """Return the class of the whole configuration.

    Args:
        sections: dotted place -> section, or (type, field); "a.b" becomes a field of the section at
            "a", which comes before it. Their order is the order of the fields.

    Returns:
        A section with a field for each place of one word.
    """
    heads: dict[str, Any] = {place: entry for place, entry in sections.items() if "." not in place}
    inner: dict[str, dict[str, Any]] = {}
    for place, entry in sections.items():
        head, _, name = place.partition(".")
        if name:
            inner.setdefault(head, {})[name] = (entry, ...)
    for head, fields in inner.items():
        base = heads[head]
        heads[head] = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)
    fields = {name: e if isinstance(e, tuple) else (e, ...) for name, e in heads.items()}
    doc = "The whole configuration of fedscan."
    whole: type[Section] = create_model("Config", __base__=Section, __doc__=doc, **fields)
    return whole


Config = compose(
    {place: section for e in EXPERIMENTS for place, section in e.sections.items()}
    | {"workflow": Workflow}
)


def broken_rules(config: Section) -> list[Problem]:
    """List what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Returns:
        (location, value, message) per problem.
    """
    return [problem for experiment in EXPERIMENTS for problem in experiment.rules(config)]
