"""The settings of a stage: exactly the keys it uses, as one canonical string a rule can track."""

from collections.abc import Mapping
from typing import Any


def chosen(section: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section without the keys of the variants that are not chosen.

    Args:
        section: a part of the configuration with a sub-section per variant.
        name: the variant in use.

    Returns:
        The plain keys, and the sub-section ``name`` if there is one.
    """
    return {k: v for k, v in section.items() if k == name or not isinstance(v, dict)}
