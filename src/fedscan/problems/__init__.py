"""Problems: a model and client data behind ``federated.problem.Problem``."""
