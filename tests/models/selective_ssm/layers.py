"""Random layers and their torch versions for the kernel tests."""

import numpy as np
import torch

from fedscan.models.selective_ssm import reference
from fedscan.models.selective_ssm.layout import BLOCKS, blocks


def random_point(shape, seed=0, scale=0.7, gamma=0.3):
    rng = np.random.default_rng(seed)
    params = rng.normal(0, scale, shape.parameters)
    params[-shape.d_state :] = -gamma - np.abs(params[-shape.d_state :])
    return params


def random_tokens(shape, count, length, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, shape.d_input, (count, length)).astype(np.uint8)


def as_layer(vector, shape):
    d, n = shape
    parts = torch.split(vector, shape.sizes)
    sizes = ((d, d), (n, d), (n, d), (n,))
    return {name: part.view(s) for name, part, s in zip(BLOCKS, parts, sizes, strict=True)}


def reference_losses(vector, tokens, shape):
    return reference.sequence_losses([as_layer(vector, shape)], torch.tensor(tokens))


def reference_gradients(params, tokens, shape):
    """Losses and gradients of every sequence by autograd."""
    gradients, losses = [], []
    for row in tokens:
        vector = torch.tensor(params, requires_grad=True)
        loss = reference_losses(vector, row[None], shape)[0]
        loss.backward()
        losses.append(loss.item())
        gradients.append(vector.grad.numpy())
    return np.array(losses), np.array(gradients)


def loops(params, tokens, shape):
    """Logits of one sequence by scalar loops over the recurrence of the paper."""
    layer, (d, n) = blocks(params, shape), shape
    state, found = np.zeros((n, d)), []
    for token in tokens:
        x = np.eye(d)[token]
        step = np.log1p(np.exp(layer.W_delta @ x))
        for i in range(n):
            for j in range(d):
                kept = np.exp(layer.A[i] * step[j])
                state[i, j] = kept * state[i, j] + (layer.W_B @ x)[i] * step[j] * x[j]
        found.append(state.T @ (layer.W_C @ x))
    return np.array(found)
