"""What central training shares: AdamW on named tensors, and the step at which it diverged."""

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from fedscan.federated.local_phase import first_non_finite
from fedscan.params.algebra import Params, all_finite


class Diverged(ArithmeticError):
    """A loss, a gradient or the model became non-finite.

    Attributes:
        step: from 1 over the whole training.
    """

    def __init__(self, what: str, step: int) -> None:
        """Record what happened at which step."""
        super().__init__(f"{what} at step {step}")
        self.step = step


def require_finite(losses: Tensor, norms: Tensor, params: Params, done: int) -> None:
    """Check some steps.

    Args:
        losses: of the steps, (steps).
        norms: of their gradients, (steps).
        params: after them.
        done: steps taken before.

    Raises:
        Diverged: if one is not finite; names the first.
    """
    bad = first_non_finite(losses, norms)
    if bad is not None:
        raise Diverged(f"non-finite {bad[1]}", done + bad[0])
    if not all_finite(params):
        raise Diverged("non-finite parameters", done + len(losses))


def adamw_step(
    params: Params,
    gradient: Params,
    first: Params,
    second: Params,
    *,
    step: int,
    rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> None:
    """Take one step in place, by the kernel torch's own class calls (see ``problems.adamw``).

    Args:
        params: changed in place.
        gradient: by the same names.
        first: first moments, changed in place.
        second: second moments, changed in place.
        step: from 1.
        rate: learning rate.
        betas: beta1, beta2.
        eps: epsilon.
        weight_decay: decoupled.
    """
    if not params:
        return
    tensors = list(params.values())
    # The kernel advances every counter in place, so each tensor needs one of its own.
    counters = torch.full((len(tensors),), step - 1.0, device=tensors[0].device)
    adamw(
        tensors,
        # The fused step reads memory in order, whatever a gradient's strides say.
        [tensor.contiguous() for tensor in gradient.values()],
        list(first.values()),
        list(second.values()),
        [],
        list(counters.unbind()),
        fused=True,
        amsgrad=False,
        beta1=betas[0],
        beta2=betas[1],
        lr=rate,
        weight_decay=weight_decay,
        eps=eps,
        maximize=False,
    )
