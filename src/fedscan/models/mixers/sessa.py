"""Sessa's layer as a kind of mixer: the authors' form, as many forward heads as attention has."""

from torch import nn

from fedscan.models import sessa
from fedscan.models.architecture import Architecture
from fedscan.models.mixers.mixer import Mixer, prefix
from fedscan.models.sessa_symmetries import sessa_groups
from fedscan.params.permutation import Groups


def make(shape: Architecture) -> nn.Module:
    """Return a layer without values.

    Args:
        shape: architecture.
    """
    return sessa.Sessa(shape.d_model, shape.attention_heads)


def groups(shape: Architecture, layer: int) -> Groups:
    """Return the permutation groups of one layer.

    Args:
        shape: architecture.
        layer: from 0.
    """
    return sessa_groups(prefix(layer), layer, shape.d_model, shape.attention_heads)


SESSA_MIXER = Mixer(make, sessa.construct, sessa.reset, groups, continues=False)
