"""The gated norm's own backward pass against torch's, and against finite differences."""

import pytest
import torch
import torch.nn.functional as F

from fedscan.models.gated_norm import gated_rms_norm

EPS = 1e-5


def parts(groups, width=5):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 3, groups, width), (2, 3, groups, width), (groups, width))
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def reference(y, z, weight):
    return F.rms_norm(y * F.silu(z), (y.shape[-1],), None, EPS) * weight


@pytest.mark.parametrize("groups", [1, 2])
def test_values_and_gradients_are_torchs(groups):
    arguments = parts(groups)
    mine, theirs = gated_rms_norm(*arguments, EPS), reference(*arguments)
    torch.testing.assert_close(mine, theirs, rtol=1e-14, atol=1e-14)
    slope = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1), dtype=mine.dtype)
    for a, b in zip(
        torch.autograd.grad(mine, arguments, slope),
        torch.autograd.grad(theirs, arguments, slope),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_gradients_are_finite_differences():
    assert torch.autograd.gradcheck(lambda *a: gated_rms_norm(*a, EPS), parts(2))


def test_a_row_of_zeros_stays_finite():
    y, z, weight = parts(1)
    nothing = torch.zeros_like(y).requires_grad_()
    out = gated_rms_norm(nothing, z, weight, EPS)
    assert not out.any()
    (slope,) = torch.autograd.grad(out.sum(), nothing)
    assert slope.isfinite().all()
