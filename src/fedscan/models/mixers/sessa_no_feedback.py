"""Sessa's layer without the loop: gated attention, the control."""

from fedscan.models.mixers.sessa import sessa_mixer

SESSA_NO_FEEDBACK_MIXER = sessa_mixer(loop=False)
