"""The bounds hold for random stable layers and stacks, by autograd in float64."""

import numpy as np
import pytest
import torch

from fedscan.models.selective_ssm import reference
from fedscan.models.selective_ssm.layout import BLOCKS
from fedscan.theory.constants import configured, realised
from fedscan.theory.gradient import gradient_bound
from fedscan.theory.smoothness import smoothness_bound
from fedscan.theory.stack_gradient import stack_gradient_bound
from fedscan.theory.stack_inputs import stack_constants
from fedscan.theory.stack_smoothness import stack_smoothness_bound
from tests.theory.conftest import norms_of, random_layer

D, N, LENGTH = 3, 2, 7


def derivatives(layers, tokens):
    """Gradient norm and Hessian spectral norm of one sequence's loss in all parameters."""
    sizes = [(name, i) for i in range(len(layers)) for name in BLOCKS]
    start = torch.cat([torch.tensor(layers[i][name]).reshape(-1) for name, i in sizes])

    def loss(vector):
        parts = torch.split(vector, [layers[i][name].size for name, i in sizes])
        stack = [{} for _ in layers]
        for (name, i), part in zip(sizes, parts, strict=True):
            stack[i][name] = part.view(layers[i][name].shape)
        return reference.sequence_losses(stack, tokens)[0]

    gradient = torch.autograd.functional.jacobian(loss, start)
    hessian = torch.autograd.functional.hessian(loss, start)
    return float(gradient.norm()), float(torch.linalg.matrix_norm(hessian, 2))


@pytest.mark.parametrize("seed", range(6))
def test_single_layer(seed):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, D, N, rng.uniform(0.2, 1.5), rng.uniform(0.01, 1.0))
    tokens = torch.tensor(rng.integers(0, D, (1, LENGTH)))
    gradient, hessian = derivatives([layer], tokens)
    decay = np.min(-layer["A"]) * np.logaddexp(0, layer["W_delta"].min())
    point, tight = configured(norms_of(layer), decay, D, N), realised(**layer, length=LENGTH)
    assert 0 < gradient <= gradient_bound(tight).bound <= gradient_bound(point).bound
    assert 0 < hessian <= smoothness_bound(tight).bound <= smoothness_bound(point).bound


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_stacks(depth, seed):
    rng = np.random.default_rng(seed)
    layers = [random_layer(rng, D, N, 0.3, 1.5) for _ in range(depth)]
    tokens = torch.tensor(rng.integers(0, D, (1, LENGTH)))
    gradient, hessian = derivatives(layers, tokens)
    rows = [np.linalg.norm(layer["W_delta"], axis=1).max() for layer in layers]
    gammas = [np.min(-layer["A"]) for layer in layers]
    decay = gammas[0] * np.logaddexp(0, layers[0]["W_delta"].min())
    constants = stack_constants([norms_of(layer) for layer in layers], rows, gammas, decay, D, N)
    assert 0 < gradient <= stack_gradient_bound(constants).bound
    assert 0 < hessian <= stack_smoothness_bound(constants).bound
    stack = [{k: torch.tensor(v) for k, v in layer.items()} for layer in layers]
    inputs = reference.one_hot(tokens, stack[0]["W_B"])
    for output, layer in zip(reference.outputs(stack, inputs), constants[1:], strict=False):
        assert output.norm(dim=-1).max().item() <= layer.input_bound
