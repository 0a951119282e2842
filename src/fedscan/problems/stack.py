"""Stacks of analysed layers: random ones, trained ones, and their derivatives by autograd.

Parameters of a stack are one flat vector, layer after layer, each as in ``layout``.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, jvp, vmap

from fedscan.models.selective_ssm import reference
from fedscan.models.selective_ssm.layout import BLOCKS, Blocks, Shape, flat
from fedscan.models.selective_ssm.stability import Margins, limits, softplus
from fedscan.problems.learner import initial_params
from fedscan.seeds import derive, generator


def random_stack(shape: Shape, depth: int, rho: float, scale: float, index: int) -> np.ndarray:
    """Return a random stack whose layers would have stability limit ``rho`` on one-hot inputs.

    Args:
        shape: sizes of every layer.
        depth: layers Q.
        rho: stability limit.
        scale: standard deviation of the weights.
        index: distinguishes points.

    Returns:
        (depth * parameters) float64.
    """
    random = generator(index, "random stack", depth, *shape)
    d, n = shape
    layers = []
    for _ in range(depth):
        w, b, c = (random.normal(0, scale, size) for size in ((d, d), (n, d), (n, d)))
        gamma = -np.log(rho) / float(softplus(w).min())
        layers.append(flat(Blocks(w, b, c, -gamma * (1 + 0.25 * np.abs(random.normal(size=n))))))
    return np.concatenate(layers)


def initial_stack(shape: Shape, depth: int, margins: Margins, seed: int) -> np.ndarray:
    """Return a stack of learners' initial layers.

    Args:
        shape: sizes of every layer.
        depth: layers Q.
        margins: configured gamma and delta.
        seed: root seed; the layers' seeds are derived from it.

    Returns:
        (depth * parameters) float64.
    """
    seeds = [derive(seed, "layer of a stack", q) % 2**31 for q in range(depth)]
    return np.concatenate([initial_params(shape, margins, s).astype(float) for s in seeds])


def train_stack(
    params: np.ndarray,
    tokens: np.ndarray,
    batches: np.ndarray,
    shape: Shape,
    margins: Margins,
    learning_rate: float,
) -> np.ndarray:
    """Take SGD steps; the first layer is projected, of the others only A, whose limit they share.

    Steps of later layers depend on their inputs, so clamping W_delta would certify nothing.

    Args:
        params: (depth * parameters) start.
        tokens: (sequences, length).
        batches: (updates, batch) indices.
        shape: sizes of every layer.
        margins: configured gamma and delta of the first layer.
        learning_rate: step size.

    Returns:
        (depth * parameters).
    """
    largest, smallest = limits(margins, np.float64)
    vector, data = torch.tensor(params), torch.tensor(tokens)
    size, transition = shape.parameters, shape.starts[3]
    for batch in batches:
        gradient = grad(lambda v, b=batch: _losses(v, data[b], shape).mean())(vector)
        vector = vector - learning_rate * gradient
        layers = vector.view(-1, size)
        layers[:, transition:].clamp_(max=float(largest))
        layers[0, : shape.sizes[0]].clamp_(min=float(smallest))
    return vector.numpy()


def gradients(
    params: np.ndarray, tokens: np.ndarray, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and gradient of every sequence in all layers' parameters.

    Args:
        params: (depth * parameters).
        tokens: (sequences, length).
        shape: sizes of every layer.

    Returns:
        Losses (sequences), gradients (sequences, depth * parameters).
    """
    vector, data = torch.tensor(params), torch.tensor(tokens)
    found = vmap(grad(_single(shape)), in_dims=(None, 0))(vector, data)
    return _losses(vector, data, shape).numpy(), found.numpy()


def hessian_products(
    params: np.ndarray, directions: np.ndarray, tokens: np.ndarray, shape: Shape
) -> np.ndarray:
    """Return, per sequence, the Hessian of its loss times its direction, forward over reverse.

    Args:
        params: (depth * parameters).
        directions: (sequences, depth * parameters).
        tokens: (sequences, length).
        shape: sizes of every layer.

    Returns:
        (sequences, depth * parameters).
    """
    vector, loss = torch.tensor(params), _single(shape)

    def product(direction: Tensor, row: Tensor) -> Tensor:
        return jvp(grad(lambda v: loss(v, row)), (vector,), (direction,))[1]

    return vmap(product)(torch.tensor(directions), torch.tensor(tokens)).numpy()


def layer_inputs(params: np.ndarray, tokens: np.ndarray, shape: Shape) -> list[np.ndarray]:
    """Return what every layer reads.

    Args:
        params: (depth * parameters).
        tokens: (sequences, length); the last token is only a target.
        shape: sizes of every layer.

    Returns:
        Per layer (sequences, length - 1, D).
    """
    layers = _layers(torch.tensor(params), shape)
    first = reference.one_hot(torch.tensor(tokens[:, :-1]), layers[0]["W_B"])
    return [first.numpy(), *(y.numpy() for y in reference.outputs(layers[:-1], first))]


def _layers(vector: Tensor, shape: Shape) -> list[reference.Layer]:
    d, n = shape
    sizes = ((d, d), (n, d), (n, d), (n,))
    found = []
    for layer in torch.split(vector, shape.parameters):
        parts = torch.split(layer, shape.sizes)
        found.append({b: p.view(s) for b, p, s in zip(BLOCKS, parts, sizes, strict=True)})
    return found


def _losses(vector: Tensor, tokens: Tensor, shape: Shape) -> Tensor:
    return reference.sequence_losses(_layers(vector, shape), tokens)


def _single(shape: Shape) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(vector: Tensor, row: Tensor) -> Tensor:
        return _losses(vector, row[None], shape)[0]

    return loss
