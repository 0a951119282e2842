"""Closed-form bounds against gradients and curvature measured on the teachers' datasets."""
