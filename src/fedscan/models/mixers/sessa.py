"""Sessa's layer as a kind of mixer: the authors' form, as many forward heads as attention has."""

from torch import nn

from fedscan.models import sessa
from fedscan.models.architecture import Architecture
from fedscan.models.draws import reset_projections
from fedscan.models.mixers.mixer import Mixer, prefix
from fedscan.models.sessa_symmetries import sessa_groups
from fedscan.params.permutation import Groups


def sessa_mixer(loop: bool) -> Mixer:
    """Return the kind with or without the feedback.

    Args:
        loop: whether there is the feedback attention.
    """

    def make(shape: Architecture) -> nn.Module:
        return sessa.Sessa(shape.d_model, shape.attention_heads, loop=loop)

    def groups(shape: Architecture, layer: int) -> Groups:
        heads = shape.attention_heads
        return sessa_groups(prefix(layer), layer, shape.d_model, heads, loop=loop)

    return Mixer(make, sessa.construct, reset_projections, groups, continues=False)


SESSA_MIXER = sessa_mixer(loop=True)
