"""Mamba2 as a kind of mixer."""

from fedscan.models import mamba2
from fedscan.models.architecture import Architecture
from fedscan.models.draws import reset_projections
from fedscan.models.mamba2_symmetries import mamba2_groups
from fedscan.models.mixers.mixer import Mixer, prefix
from fedscan.params.permutation import Groups


def groups(shape: Architecture, layer: int) -> Groups:
    """Return the permutation groups of one layer.

    Args:
        shape: architecture.
        layer: from 0.
    """
    inner = shape.expand * shape.d_model
    return mamba2_groups(prefix(layer), layer, inner, shape.d_state, shape.headdim, shape.ngroups)


MAMBA2_MIXER = Mixer(mamba2.make, mamba2.construct, reset_projections, groups, continues=True)
