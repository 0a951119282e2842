"""Federated learners on the teachers' datasets, where every bound can be evaluated."""
