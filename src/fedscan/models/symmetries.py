"""Reorderings of a language model's features that leave its function unchanged."""

from fedscan.models.architecture import Architecture
from fedscan.models.mixers import MIXERS
from fedscan.params.permutation import Groups

# What FedAlign asks for.
KINDS = ("state", "heads")


def permutation_groups(shape: Architecture) -> Groups:
    """Return the permutation groups of every layer that has some.

    Args:
        shape: architecture.

    Returns:
        Kind -> groups, in layer order; ``state`` and ``heads`` are always there.
    """
    found: Groups = dict.fromkeys(KINDS, ())
    for layer, kind in enumerate(shape.mixers):
        for name, groups in MIXERS[kind].groups(shape, layer).items():
            found[name] = (*found.get(name, ()), *groups)
    return found
