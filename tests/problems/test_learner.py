"""Initial layers, batches, and the stacks' derivatives."""

import numpy as np
import pytest
import torch

from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import Shape, blocks
from fedscan.models.selective_ssm.stability import EPSILON, Margins, certify
from fedscan.problems import stack
from fedscan.problems.learner import epoch_batches, initial_params
from tests.models.selective_ssm.layers import random_point, random_tokens

SHAPE, MARGINS = Shape(4, 4), Margins(0.4, 0.3)


def test_initial_layers():
    params = initial_params(SHAPE, MARGINS, 0)
    assert params.dtype == np.float32
    assert certify(blocks(params, SHAPE), MARGINS).stable
    assert (blocks(params, SHAPE).A <= -(0.4 + EPSILON) + 1e-6).all()
    many = np.stack(
        [blocks(initial_params(Shape(4, 4), MARGINS, s), SHAPE).W_B for s in range(300)]
    )
    assert many.std() == pytest.approx(0.1, rel=0.05)
    assert not np.array_equal(params, initial_params(SHAPE, MARGINS, 1))
    # The margins move A, not the draws.
    other = initial_params(SHAPE, Margins(0.1, 0.3), 0)
    assert np.array_equal(blocks(other, SHAPE).W_C, blocks(params, SHAPE).W_C)


def test_epochs_cover_everything_and_do_not_depend_on_the_cut():
    whole = epoch_batches(64, 8, 3, 0, 24)
    assert whole.shape == (24, 8)
    for epoch in range(3):
        assert sorted(whole[8 * epoch : 8 * epoch + 8].ravel()) == list(range(64))
    assert not np.array_equal(whole[:8], whole[8:16])
    parts = [epoch_batches(64, 8, 3, first, 5) for first in (0, 5, 10)]
    assert np.array_equal(np.concatenate(parts), whole[:15])
    assert not np.array_equal(whole, epoch_batches(64, 8, 4, 0, 24))


def test_one_layer_stacks_are_the_kernel():
    params, tokens = random_point(SHAPE), random_tokens(SHAPE, 3, 9)
    losses, gradients = stack.gradients(params, tokens, SHAPE)
    wanted, exact = cpu.sequence_gradients(params, tokens, SHAPE)
    assert np.abs(losses - wanted).max() < 1e-12
    assert np.abs(gradients - exact).max() < 1e-12
    directions = np.random.default_rng(0).normal(size=gradients.shape)
    found = stack.hessian_products(params, directions, tokens, SHAPE)
    assert np.abs(found - cpu.hessian_products(params, directions, tokens, SHAPE)).max() < 1e-12


def test_hessian_products_of_two_layers_equal_differences_of_gradients():
    params = np.concatenate([random_point(SHAPE, 0), random_point(SHAPE, 1)])
    tokens = random_tokens(SHAPE, 1, 7)
    direction = np.random.default_rng(0).normal(size=(1, len(params)))
    found = stack.hessian_products(params, direction, tokens, SHAPE)[0]
    h = 1e-6
    plus, minus = (
        stack.gradients(params + sign * h * direction[0], tokens, SHAPE)[1][0] for sign in (1, -1)
    )
    assert np.abs(found - (plus - minus) / (2 * h)).max() < 1e-7


def test_stack_training_descends_and_stays_stable():
    params = stack.initial_stack(SHAPE, 2, MARGINS, 0)
    tokens = random_tokens(SHAPE, 16, 8)
    batches = np.tile(np.arange(16), (5, 1))
    trained = stack.train_stack(params, tokens, batches, SHAPE, MARGINS, 1.0)
    before, after = (stack.gradients(p, tokens, SHAPE)[0].mean() for p in (params, trained))
    assert after < before
    for layer in np.split(trained, 2):
        assert blocks(layer, SHAPE).A.max() <= -(0.4 + EPSILON)
    assert certify(blocks(trained[: SHAPE.parameters], SHAPE), MARGINS).stable
    # One plain step, by autograd.
    vector = torch.tensor(params, requires_grad=True)
    stack._losses(vector, torch.tensor(tokens), SHAPE).mean().backward()
    one = stack.train_stack(params, tokens, batches[:1], SHAPE, MARGINS, 1e-3)
    inside = np.abs(one - params) > 0
    assert np.allclose((one - params)[inside], -1e-3 * vector.grad.numpy()[inside], atol=1e-12)


def test_random_stacks_have_their_limit_on_one_hot_inputs():
    params = stack.random_stack(SHAPE, 3, 0.9, 0.3, 0)
    for layer in np.split(params, 3):
        found = certify(blocks(layer, SHAPE), Margins(0.0, 0.0))
        assert 0.8 < found.rho_hat <= 0.9
    assert not np.array_equal(params, stack.random_stack(SHAPE, 3, 0.9, 0.3, 1))


def test_layer_inputs_start_with_one_hot_tokens():
    params, tokens = np.tile(random_point(SHAPE), 2), random_tokens(SHAPE, 2, 5)
    first, second = stack.layer_inputs(params, tokens, SHAPE)
    assert np.array_equal(first, np.eye(4)[tokens[:, :-1]])
    assert second.shape == (2, 4, 4)
