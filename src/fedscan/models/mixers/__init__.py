"""Kinds of mixers: kind -> what a language model needs to know of it.

A new kind is a module and an entry. ``io.provenance`` reads the dict: a job depends on the kinds
that it trains, and on no other's code.
"""

from fedscan.models.architecture import ATTENTION, MAMBA2, SESSA, SESSA_NO_FEEDBACK
from fedscan.models.mixers.attention import ATTENTION_MIXER
from fedscan.models.mixers.mamba2 import MAMBA2_MIXER
from fedscan.models.mixers.mixer import Mixer
from fedscan.models.mixers.sessa import SESSA_MIXER
from fedscan.models.mixers.sessa_no_feedback import SESSA_NO_FEEDBACK_MIXER

MIXERS: dict[str, Mixer] = {
    MAMBA2: MAMBA2_MIXER,
    ATTENTION: ATTENTION_MIXER,
    SESSA: SESSA_MIXER,
    SESSA_NO_FEEDBACK: SESSA_NO_FEEDBACK_MIXER,
}
