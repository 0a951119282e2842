"""The chunked form against the recurrence, in value and gradient, float64."""

import pytest
import torch

from fedscan.models.ssd import ssd
from tests.oracles.recurrence import sequential_ssd


def inputs(length, groups=1, heads=4, headdim=3, state=5, seed=0):
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return (
        draw(2, length, heads, headdim),
        torch.nn.functional.softplus(draw(2, length, heads)),
        -torch.exp(draw(heads)),
        draw(2, length, groups, state),
        draw(2, length, groups, state),
        draw(heads),
    )


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 100])
def test_values_and_gradients_equal_the_recurrence(length, groups):
    args = [tensor.requires_grad_() for tensor in inputs(length, groups)]
    weight = torch.randn(2, length, 4, 3, dtype=torch.float64)
    fast, naive = ssd(*args, 64), sequential_ssd(*args)
    torch.testing.assert_close(fast, naive, rtol=1e-10, atol=1e-11)
    found = torch.autograd.grad((fast * weight).sum(), args)
    expected = torch.autograd.grad((naive * weight).sum(), args)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("chunk", [1, 7, 16, 100, 1000])
def test_chunk_length_changes_rounding_only(chunk):
    args = inputs(100)
    torch.testing.assert_close(ssd(*args, chunk), ssd(*args, 64), rtol=1e-11, atol=1e-11)


def test_strong_decay_gives_no_nan():
    # exp(+3000) above the diagonal would overflow, and its masked gradient would be NaN.
    x, dt, A, B, C, D = inputs(64)
    args = [x, dt * 100, A * 100, B, C, D]
    args = [tensor.detach().requires_grad_() for tensor in args]
    y = ssd(*args, 64)
    gradients = torch.autograd.grad(y.sum(), args)
    assert all(torch.isfinite(tensor).all() for tensor in (y, *gradients))


def test_causality():
    x, dt, A, B, C, D = inputs(100)
    changed = x.clone()
    changed[:, 70:] += 1
    before, after = ssd(x, dt, A, B, C, D, 64), ssd(changed, dt, A, B, C, D, 64)
    assert torch.equal(before[:, :70], after[:, :70])
    assert not torch.equal(before[:, 70:], after[:, 70:])
