"""The recurrence as the paper writes it, in torch with autograd: any inputs, any number of layers.

The slow and plain version that the kernels are compared with.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

Layer = Mapping[str, Tensor]


def layer_outputs(layer: Layer, inputs: Tensor) -> Tensor:
    """Run one layer from h_0 = 0 (equations 2a, 2b).

    Args:
        layer: W_delta (D, D), W_B and W_C (N, D), A (N).
        inputs: (batch, length, D).

    Returns:
        (batch, length, D) outputs y_t.
    """
    steps = functional.softplus(inputs @ layer["W_delta"].T)
    written = inputs @ layer["W_B"].T
    read = inputs @ layer["W_C"].T
    state = inputs.new_zeros(inputs.shape[0], layer["A"].shape[0], inputs.shape[2])
    outputs = []
    for t in range(inputs.shape[1]):
        step = steps[:, t, None, :]
        transition = torch.exp(layer["A"][None, :, None] * step)
        state = transition * state + written[:, t, :, None] * step * inputs[:, t, None, :]
        outputs.append(torch.einsum("bnd,bn->bd", state, read[:, t]))
    return torch.stack(outputs, dim=1)


def outputs(layers: Sequence[Layer], inputs: Tensor) -> list[Tensor]:
    """Run a stack; each layer's output is the next one's input (equation C.1).

    Args:
        layers: from the first to the last.
        inputs: (batch, length, D).

    Returns:
        The outputs of every layer, each (batch, length, D).
    """
    found = []
    for layer in layers:
        inputs = layer_outputs(layer, inputs)
        found.append(inputs)
    return found


def one_hot(tokens: Tensor, like: Tensor) -> Tensor:
    """Return tokens as basis vectors.

    Args:
        tokens: (batch, length) integers below D.
        like: a parameter with last axis D, which gives dtype and device.

    Returns:
        (batch, length, D).
    """
    # Not functional.one_hot, which torch.func.vmap cannot batch.
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)[tokens.long()]


def sequence_losses(layers: Sequence[Layer], tokens: Tensor) -> Tensor:
    """Return each sequence's mean cross-entropy over its next-token positions (equation 3).

    Args:
        layers: a stack of layers.
        tokens: (batch, length) integers below D, length at least 2.

    Returns:
        (batch) losses in nats.
    """
    logits = outputs(layers, one_hot(tokens[:, :-1], layers[0]["W_B"]))[-1]
    nats = functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:].long(), reduction="none")
    return nats.mean(dim=1)
