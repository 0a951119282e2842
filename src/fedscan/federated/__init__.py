"""Federated optimisation: the algorithm interface, the algorithms, the local phase, the engine."""
