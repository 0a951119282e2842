"""fedscan: studying federated learning of selective state-space models."""

__version__ = "0.1.0"
