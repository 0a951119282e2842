"""Attention as a kind of mixer."""

from fedscan.models import attention
from fedscan.models.architecture import Architecture
from fedscan.models.draws import reset_projections
from fedscan.models.mixers.mixer import Mixer
from fedscan.params.permutation import Groups


def no_groups(_shape: Architecture, _layer: int) -> Groups:
    """Return nothing: no reordering of the layer is used."""
    return {}


ATTENTION_MIXER = Mixer(
    attention.make, attention.construct, reset_projections, no_groups, continues=False
)
