"""Federated algorithms compared on Mamba2 language models."""
