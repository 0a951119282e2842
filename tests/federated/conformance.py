"""The registry of algorithms under test: ordinary and degenerate hyperparameters of each."""

import math

SCAFFOLD = {
    "refresh_every": 1,
    "correction_scale": 1.0,
    "control_lr": 1.0,
    "control_bound": math.inf,
    "estimate": "mean_gradient",
}
ORDINARY = {
    "fedavg": {},
    "fedprox": {"mu": 1.0},
    "scaffold": SCAFFOLD,
    "fedsam": {"radius": 0.05},
    "fedadam": {"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
    "fedalign": {"align_mamba2_heads": 1, "permutation_groups": {"state": (), "heads": ()}},
    "feddyn": {"alpha": 0.5},
    "fedexp": {"epsilon": 0.2},
    "diloco": {"outer_lr": 0.7, "outer_momentum": 0.5},
}
# Settings under which the algorithm is FedAvg bit for bit.
DEGENERATE = {
    "fedprox": {"mu": 0.0},
    "scaffold": SCAFFOLD | {"correction_scale": 0.0},
    "fedsam": {"radius": 0.0},
    "fedalign": {"align_mamba2_heads": 1, "permutation_groups": {"state": (), "heads": ()}},
    "diloco": {"outer_lr": 1.0, "outer_momentum": 0.0},
}
