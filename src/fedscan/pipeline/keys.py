"""The settings of a stage: exactly the keys it uses, as one canonical string a rule can track."""

from collections.abc import Mapping
from typing import Any

from fedscan.io.provenance import Choices, canonical_json, code_fingerprint
from fedscan.pipeline.stage import Stage


def stage_key(stage: Stage, settings: Mapping[str, Any], choices: Choices | None = None) -> str:
    """Return what a rule tracks: its settings and the fingerprint of its code.

    Args:
        stage: of the rule.
        settings: the keys it uses and their values.
        choices: registry package -> the members in use, see ``code_fingerprint``.

    Returns:
        Canonical JSON with the settings and ``code``.
    """
    return canonical_json({"code": code_fingerprint(stage.module, choices=choices), **settings})


def chosen(section: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section without the keys of the variants that are not chosen.

    Args:
        section: a part of the configuration with a sub-section per variant.
        name: the variant in use.

    Returns:
        The plain keys, and the sub-section ``name`` if there is one.
    """
    return {k: v for k, v in section.items() if k == name or not isinstance(v, dict)}


def without(section: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a section without some of its keys.

    Args:
        section: a part of the configuration.
        names: keys to leave out.

    Returns:
        The others.
    """
    return {k: v for k, v in section.items() if k not in names}


def only(section: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return some keys of a section.

    Args:
        section: a part of the configuration.
        names: keys to take.

    Returns:
        Those.
    """
    return {name: section[name] for name in names}
