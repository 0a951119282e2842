"""Reorderings of a language model's features that leave its function unchanged."""

from fedscan.models.architecture import Architecture
from fedscan.models.mixers import MIXERS
from fedscan.params.permutation import Groups, joined


def permutation_groups(shape: Architecture) -> Groups:
    """Return the permutation groups of every layer that has some.

    Args:
        shape: architecture.

    Returns:
        Kind -> groups, in layer order; ``state`` and ``heads`` are always there.
    """
    return joined(MIXERS[kind].groups(shape, layer) for layer, kind in enumerate(shape.mixers))
