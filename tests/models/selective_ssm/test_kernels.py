"""The reference against loops, the CPU kernel against the reference, values and gradients."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from fedscan.models.selective_ssm import cpu, reference
from fedscan.models.selective_ssm.denormals import flushed_denormals
from fedscan.models.selective_ssm.kernels import sequence_gradients
from fedscan.models.selective_ssm.layout import Blocks, Shape, block_norms, blocks, flat
from fedscan.models.selective_ssm.stability import (
    EPSILON,
    Margins,
    certify,
    inverse_softplus,
    project,
    softplus,
)
from tests.models.selective_ssm.layers import (
    as_layer,
    loops,
    random_point,
    random_tokens,
    reference_gradients,
    reference_losses,
)

SHAPES = [Shape(4, 4), Shape(5, 3), Shape(8, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reference_is_the_recurrence(shape):
    params, tokens = random_point(shape), random_tokens(shape, 2, 7)
    inputs = reference.one_hot(torch.tensor(tokens), torch.zeros(shape, dtype=torch.float64).T)
    found = reference.layer_outputs(as_layer(torch.tensor(params), shape), inputs)
    for i, row in enumerate(tokens):
        assert np.allclose(found[i].numpy(), loops(params, row, shape), rtol=0, atol=1e-13)


def test_reference_stacks_feed_outputs_on():
    shape = Shape(3, 2)
    layers = [as_layer(torch.tensor(random_point(shape, seed)), shape) for seed in (0, 1)]
    inputs = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    both = reference.outputs(layers, inputs)
    assert torch.equal(both[1], reference.layer_outputs(layers[1], both[0]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("length", [2, 3, 64, 65])  # 1, 2, 63 and 64 positions with a target
def test_cpu_kernel_equals_the_reference(shape, length):
    params, tokens = random_point(shape), random_tokens(shape, 3, length)
    losses, gradients = reference_gradients(params, tokens, shape)
    loss, gradient = cpu.gradient(params, tokens, shape)
    assert loss == pytest.approx(losses.mean(), abs=1e-12)
    assert np.abs(gradient - gradients.mean(axis=0)).max() < 1e-12
    each_loss, each = cpu.sequence_gradients(params, tokens, shape)
    assert np.abs(each_loss - losses).max() < 1e-12
    assert np.abs(each - gradients).max() < 1e-12
    assert np.abs(block_norms(each, shape) - block_norms(gradients, shape)).max() < 1e-12
    predicted = cpu.predict(params, tokens, shape)
    assert np.abs(predicted.losses - losses).max() < 1e-12


def test_float32_kernel_is_the_float64_one_to_rounding():
    shape = Shape(8, 8)
    params, tokens = random_point(shape), random_tokens(shape, 8, 64)
    loss, gradient = cpu.gradient(params.astype(np.float32), tokens, shape)
    wanted, exact = cpu.gradient(params.astype(np.float32).astype(np.float64), tokens, shape)
    assert gradient.dtype == np.float32
    assert loss == pytest.approx(wanted, rel=1e-6)
    assert np.abs(gradient - exact).max() < 1e-6 * np.abs(exact).max() * 10


@pytest.mark.parametrize("shape", [Shape(4, 4), Shape(5, 3)], ids=str)
def test_hessian_products_equal_the_dense_hessian(shape):
    params, tokens = random_point(shape), random_tokens(shape, 2, 17)
    directions = np.random.default_rng(2).normal(size=(2, shape.parameters))
    found = cpu.hessian_products(params, directions, tokens, shape)
    for i, row in enumerate(tokens):
        dense = torch.autograd.functional.hessian(
            lambda vector, row=row: reference_losses(vector, row[None], shape)[0],
            torch.tensor(params),
        ).numpy()
        assert np.abs(dense @ directions[i] - found[i]).max() < 1e-12


def test_hessian_products_are_linear_and_symmetric():
    shape = Shape(16, 16)
    params, tokens = random_point(shape), random_tokens(shape, 1, 64).repeat(3, axis=0)
    u, v = np.random.default_rng(3).normal(size=(2, shape.parameters))
    h_u, h_v, h_sum = cpu.hessian_products(params, np.stack([u, v, u + 2 * v]), tokens, shape)
    assert np.allclose(h_u + 2 * h_v, h_sum, rtol=0, atol=1e-10)
    assert v @ h_u == pytest.approx(u @ h_v, rel=1e-10)


def test_predictions_count_hits_and_notice_overflow():
    shape = Shape(4, 4)
    params, tokens = random_point(shape), random_tokens(shape, 5, 12)
    found = cpu.predict(params, tokens, shape)
    for i, row in enumerate(tokens):
        logits = loops(params, row, shape)[:-1]
        assert found.hits[i] == np.sum(logits.argmax(axis=1) == row[1:])
        assert found.peaks[i] >= np.abs(logits).max() * (1 - 1e-12)
    cooler = cpu.predict(params, tokens, shape, temperature=0.5)
    logits = torch.tensor(loops(params, tokens[0], shape)[:-1] / 0.5)
    wanted = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[0, 1:]).long())
    assert cooler.losses[0] == pytest.approx(wanted.item(), abs=1e-12)
    params[shape.starts[2]] = np.nan
    assert np.isnan(cpu.predict(params, tokens, shape).peaks).all()


def test_local_steps_are_projected_sgd():
    shape, margins = Shape(4, 4), Margins(0.4, 0.6)
    params, tokens = random_point(shape, scale=0.3, gamma=0.4), random_tokens(shape, 20, 16)
    params = flat(project(blocks(params, shape), margins))
    batches = np.random.default_rng(4).integers(0, 20, (6, 8))
    for mu in (0.0, 0.3):
        phase = cpu.local_steps(params, tokens, batches, shape, margins, 2.0, mu)
        point = params
        for e, batch in enumerate(batches):
            loss, gradient = cpu.gradient(point, tokens[batch], shape)
            direction = gradient + mu * (point - params)
            moved = point - 2.0 * direction
            point = flat(project(blocks(moved, shape), margins))
            assert phase.losses[e] == pytest.approx(loss, rel=1e-12)
            assert phase.direction_norms[e] == pytest.approx(np.linalg.norm(direction), rel=1e-12)
            assert phase.displacements[e] == pytest.approx(np.linalg.norm(point - params), rel=1e-9)
            assert phase.projected[e] == np.sum(point != moved)
            assert phase.stable[e] == certify(blocks(point, shape), margins).stable
        assert np.abs(phase.params - point).max() < 1e-12
        assert phase.projected.sum() > 0
        assert phase.stable.all()


def test_divergence_is_visible():
    shape, margins = Shape(4, 4), Margins(0.4, 0.3)
    params, tokens = random_point(shape).astype(np.float32), random_tokens(shape, 4, 16)
    batches = np.zeros((40, 4), np.int64)
    phase = cpu.local_steps(params, tokens, batches, shape, margins, 1e30)
    assert not np.isfinite(phase.losses).all()


def test_samples_follow_the_layer():
    shape = Shape(3, 2)
    params = random_point(shape, scale=1.5)
    uniforms = np.random.default_rng(5).random((60_000, 3))
    tokens = cpu.sample(params, uniforms, shape, 0.7)
    assert np.abs(np.bincount(tokens[:, 0], minlength=3) / 60_000 - 1 / 3).max() < 0.01
    for first in range(3):
        for second in range(3):
            chosen = tokens[(tokens[:, 0] == first) & (tokens[:, 1] == second)]
            logits = loops(params, np.array([first, second]), shape)[-1] / 0.7
            wanted = np.exp(logits) / np.exp(logits).sum()
            shares = np.bincount(chosen[:, 2], minlength=3) / len(chosen)
            assert np.abs(shares - wanted).max() < 5 * 0.5 / np.sqrt(len(chosen))


def test_sampling_depends_on_its_uniforms_alone():
    shape = Shape(4, 4)
    params, uniforms = random_point(shape), np.random.default_rng(6).random((10, 20))
    together = cpu.sample(params, uniforms, shape, 1.0)
    assert np.array_equal(together[3:4], cpu.sample(params, uniforms[3:4], shape, 1.0))
    edge = cpu.sample(params, np.full((1, 20), np.nextafter(1.0, 0.0)), shape, 1.0)
    assert edge.max() < 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"params": np.zeros(5)}, "expected 52 float32 or float64 numbers for D=4, N=4"),
        ({"tokens": np.full((2, 5), 4, np.uint8)}, r"found 4, the layer has inputs 0\.\.3"),
        ({"tokens": np.zeros((2, 5))}, "expected contiguous uint8"),
        ({"tokens": np.zeros((2, 1), np.uint8)}, "nothing to predict"),
    ],
)
def test_bad_input_is_refused(change, message):
    shape = Shape(4, 4)
    values = {"params": random_point(shape), "tokens": random_tokens(shape, 2, 5)} | change
    with pytest.raises(ValueError, match=message):
        cpu.gradient(**values, shape=shape)


def test_indices_outside_the_data_are_refused():
    shape = Shape(4, 4)
    with pytest.raises(ValueError, match="indices from 0 to 2; there are 2 sequences"):
        cpu.local_steps(
            random_point(shape),
            random_tokens(shape, 2, 5),
            np.array([[0, 2]]),
            shape,
            Margins(0.1, 0.1),
            0.1,
        )


TRITON = """
import numpy as np
from fedscan.models.selective_ssm import cpu, gpu
from fedscan.models.selective_ssm.layout import Shape
from tests.models.selective_ssm.layers import random_point, random_tokens
for shape, length in ((Shape(4, 4), 9), (Shape(5, 3), 8), (Shape(4, 2), 2)):
    params, tokens = random_point(shape), random_tokens(shape, 3, length)
    found = gpu.sequence_gradients(params, tokens, shape)
    wanted = cpu.sequence_gradients(params, tokens, shape)
    for ours, other in zip(found, wanted, strict=True):
        assert np.abs(ours - other).max() < 1e-12, (shape, np.abs(ours - other).max())
print("equal")
"""


def test_triton_kernel_in_the_interpreter():
    # A process of its own: the interpreter is chosen when triton is imported.
    import os

    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", TRITON],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "equal\n", done.stderr


def test_a_choice_of_kernels_is_never_a_fallback():
    shape = Shape(4, 4)
    assert sequence_gradients("cpu") is cpu.sequence_gradients
    with pytest.raises(ValueError, match="'cuda' are not known; use 'cpu' or 'triton'"):
        sequence_gradients("cuda")
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="need a CUDA device"):
            sequence_gradients("triton")(random_point(shape), random_tokens(shape, 2, 5), shape)


def test_margins_and_projection():
    margins = Margins(0.4, 0.3)
    assert margins.rho == pytest.approx(np.exp(-0.12))
    layer = Blocks(np.full((2, 2), -3.0), np.ones((3, 2)), np.ones((3, 2)), np.full(3, 0.5))
    assert not certify(layer, margins).stable
    inside = project(layer, margins)
    found = certify(inside, margins)
    assert found.stable
    assert found.gamma_hat == pytest.approx(0.4 + EPSILON)
    assert found.delta_hat == pytest.approx(0.3 + EPSILON)
    again = project(inside, margins)
    assert all(np.array_equal(a, b) for a, b in zip(inside, again, strict=True))
    broken = inside._replace(W_B=np.full((3, 2), np.nan))
    assert not certify(broken, margins).stable


def test_softplus_and_its_inverse():
    for y in (1e-8, 0.05, 3.0, 800.0):
        assert softplus(np.array(inverse_softplus(y))) == pytest.approx(y, rel=1e-12)
    with pytest.raises(ValueError, match="softplus is positive"):
        inverse_softplus(0.0)


def test_flat_and_blocks_are_inverse():
    shape = Shape(3, 2)
    vector = np.arange(float(shape.parameters))
    assert np.array_equal(flat(blocks(vector, shape)), vector)
    assert shape.parameters == 3 * 3 + 2 * 2 * 3 + 2
    with pytest.raises(ValueError, match="has 23 parameters, found 22"):
        blocks(vector[:-1], shape)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_denormals_are_flushed_inside_and_the_losses_stay():
    shape, small = Shape(4, 4), torch.tensor([1e-39])
    params = np.full(shape.parameters, 0.5, np.float32)
    params[-4:] = -6  # a state is forgotten within a few positions
    tokens = np.random.default_rng(0).integers(0, 4, (8, 64)).astype(np.uint8)
    plain, slope = cpu.gradient(params, tokens, shape)
    with flushed_denormals():
        assert float(small * 1.0) == 0.0
        found, flushed = cpu.gradient(params, tokens, shape)
    assert float(small * 1.0) > 0.0
    assert found == plain
    np.testing.assert_allclose(flushed, slope, rtol=1e-6, atol=1e-30)
