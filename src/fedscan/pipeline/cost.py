"""What it costs to make what is missing."""

from collections.abc import Mapping
from typing import NamedTuple


class Cost(NamedTuple):
    """An estimate from times measured on this machine.

    Attributes:
        device: 'cpu' or 'cuda'.
        device_hours: hours of one process.
        wall_hours: hours of waiting with as many jobs at once as fit.
        table_bytes: of tables.
        model_bytes: of models that are kept.
        checkpoint_bytes: at one time, while jobs run.
        times: what was measured -> seconds of a local step, of an evaluated sequence.
    """

    device: str
    device_hours: float
    wall_hours: float
    table_bytes: float
    model_bytes: float
    checkpoint_bytes: float
    times: Mapping[str, tuple[float, float]]
