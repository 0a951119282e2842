"""Algebra on named tensors; nothing here knows a model."""
