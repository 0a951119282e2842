"""The registry of federated algorithms: name -> factory."""

from collections.abc import Callable

from fedscan.federated.algorithm import Algorithm
from fedscan.federated.algorithms.diloco import diloco
from fedscan.federated.algorithms.fedadam import fedadam
from fedscan.federated.algorithms.fedalign import fedalign
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.federated.algorithms.feddyn import feddyn
from fedscan.federated.algorithms.fedexp import fedexp
from fedscan.federated.algorithms.fedprox import fedprox
from fedscan.federated.algorithms.fedsam import fedsam
from fedscan.federated.algorithms.scaffold import scaffold

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "fedadam": fedadam,
    "fedalign": fedalign,
    "feddyn": feddyn,
    "fedsam": fedsam,
    "fedexp": fedexp,
    "diloco": diloco,
}
