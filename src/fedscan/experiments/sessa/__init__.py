"""Attention inside a feedback loop: Sessa compared, diagnosed, and trained federatedly."""
