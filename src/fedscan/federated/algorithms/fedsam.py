"""FedSAM (Qu et al. 2022): every local step is a sharpness-aware step."""

from typing import Any

from fedscan.federated.algorithm import Algorithm, GradFn, LocalContext, Step
from fedscan.federated.algorithms.fedavg import fedavg
from fedscan.params.algebra import Params, norm_tensor
from fedscan.ranges import NonNegative

EPS = 1e-12


ABOUT = {
    "label": "FedSAM",
    "look": {"color": "#56B4E9", "linestyle": "--", "linewidth": 1.5},
    "expectation": (0, 0),
    "local_bound": "sharpness_aware",
    "server_bound": "mean_update",
}


def fedsam(*, radius: NonNegative) -> Algorithm:
    """Return FedSAM: the gradient at theta + radius g/(||g|| + 1e-12), g at theta (paper, G.4).

    The norm is taken jointly over all parameters. The perturbed model is a new one, so theta is
    restored exactly; only the second gradient is clipped. Runs without autocast.

    Args:
        radius: norm of the weight perturbation; 0 is FedAvg.

    Returns:
        The algorithm.
    """

    def local_gradient(grad_fn: GradFn, params: Params, batch: Any, _context: LocalContext) -> Step:
        loss, gradient = grad_fn(params, batch)
        # A tensor: a GPU need not wait for its value.
        scale = radius / (norm_tensor(gradient) + EPS)
        perturbed = {name: tensor + scale * gradient[name] for name, tensor in params.items()}
        _, sharp = grad_fn(perturbed, batch)
        return Step(loss, sharp)

    return fedavg()._replace(name="fedsam", local_gradient=local_gradient, full_precision=True)
