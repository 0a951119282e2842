"""The algorithms under test, a row each: ordinary, degenerate and configured hyperparameters.

A row is all that a new algorithm needs here: conformance, kills at every write in both studies, and
the compiled and generic phases run over the table.
"""

import math
from typing import NamedTuple


class Row(NamedTuple):
    """One algorithm's values.

    ``ordinary``: on a quadratic; ``small``: in training jobs; ``degenerate``: settings under which
    it is FedAvg bit for bit, None if there are none.
    """

    ordinary: dict
    small: dict
    degenerate: dict | None = None


SCAFFOLD = {
    "refresh_every": 1, "correction_scale": 1.0, "control_lr": 1.0, "control_bound": math.inf,
    "estimate": "mean_gradient",
}  # fmt: skip
SMALL_SCAFFOLD = {
    "refresh_every": 2, "correction_scale": 0.01, "control_lr": 0.5, "control_bound": 0.1,
    "estimate": "mean_gradient",
}  # fmt: skip
ROWS = {
    "fedavg": Row({}, {}),
    "fedprox": Row({"mu": 1.0}, {"mu": 0.5}, {"mu": 0.0}),
    "scaffold": Row(SCAFFOLD, SMALL_SCAFFOLD, SCAFFOLD | {"correction_scale": 0.0}),
    "fedsam": Row({"radius": 0.05}, {"radius": 0.05}, {"radius": 0.0}),
    "fedadam": Row(
        {"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
        {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.001},
    ),
    "fedalign": Row(
        {"align_mamba2_heads": 1}, {"align_mamba2_heads": 1}, {"align_mamba2_heads": 1}
    ),
    "feddyn": Row({"alpha": 0.5}, {"alpha": 0.1}),
    "fedexp": Row({"epsilon": 0.2}, {"epsilon": 0.001}),
    "diloco": Row(
        {"outer_lr": 0.7, "outer_momentum": 0.5},
        {"outer_lr": 0.7, "outer_momentum": 0.9},
        {"outer_lr": 1.0, "outer_momentum": 0.0},
    ),
}
# A quadratic has no features to permute.
FACTS = {"permutation_groups": {"state": (), "heads": ()}}
SMALL = {name: row.small for name, row in ROWS.items()}
DEGENERATE = {name: row.degenerate for name, row in ROWS.items() if row.degenerate is not None}
