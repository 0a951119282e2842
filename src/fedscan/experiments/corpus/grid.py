"""What tells partitions apart, and where they lie."""

from typing import NamedTuple

from fedscan.labels import label


class PartitionAxes(NamedTuple):
    """What tells one partition from another."""

    setting: str
    beta: float
    clients: int


def partition_path(setting: str, beta: float, clients: int) -> str:
    """Return the folder of a partition below results/partition, in hive style.

    Args:
        setting: name of the domain assignment.
        beta: heterogeneity.
        clients: number of clients.

    Returns:
        ``setting=1/beta=0.7/clients=4``.
    """
    return f"setting={setting}/beta={label(beta)}/clients={label(clients)}"
