"""The convolution's own backward pass against torch's, and against finite differences."""

import pytest
import torch
import torch.nn.functional as F

from fedscan.models.causal_conv import causal_conv as split_conv


def parts(batch=2, length=7, channels=3, taps=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    return draw(batch, length, channels), draw(channels, 1, taps), draw(channels)


def causal_conv(x, weight, bias):
    """The parts, joined again."""
    channels = len(weight)
    return torch.cat(split_conv(x, weight, bias, [1, channels - 1]), dim=-1)


def reference(x, weight, bias):
    padded = F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return F.silu(F.conv1d(padded, weight, bias, groups=len(weight)).transpose(1, 2))


@pytest.mark.parametrize("length", [1, 3, 4, 7, 64])
@pytest.mark.parametrize("taps", [2, 4])
def test_values_and_gradients_are_torchs(length, taps):
    arguments = parts(length=length, taps=taps)
    mine, theirs = causal_conv(*arguments), reference(*arguments)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-14)
    slope = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1), dtype=mine.dtype)
    for a, b in zip(
        torch.autograd.grad(mine, arguments, slope),
        torch.autograd.grad(theirs, arguments, slope),
        strict=True,
    ):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_a_part_that_nothing_uses_has_no_slope():
    x, weight, bias = parts()
    used, _ = split_conv(x, weight, bias, [1, 2])
    (mine,) = torch.autograd.grad(used.sum(), x)
    (theirs,) = torch.autograd.grad(reference(x, weight, bias)[..., :1].sum(), x)
    torch.testing.assert_close(mine, theirs)


def test_positions_before_are_continued():
    x, weight, bias = parts()
    (whole,) = split_conv(x, weight, bias, [3])
    (later,) = split_conv(x[:, 3:], weight, bias, [3], x[:, :3])
    torch.testing.assert_close(later, whole[:, 3:])


def test_gradients_are_finite_differences():
    assert torch.autograd.gradcheck(causal_conv, parts())


def test_a_slice_of_a_wider_tensor_and_its_gradient():
    _, weight, bias = parts(channels=3)
    wide = torch.randn(2, 7, 9, dtype=torch.float64, requires_grad=True)
    (mine,) = torch.autograd.grad(causal_conv(wide[..., 4:7], weight, bias).sum(), wide)
    (theirs,) = torch.autograd.grad(reference(wide[..., 4:7], weight, bias).sum(), wide)
    torch.testing.assert_close(mine, theirs)


def test_autocast_keeps_parameters_gradients_in_their_dtype():
    x, weight, bias = parts(length=32, dtype=torch.float32)
    x = x.detach().bfloat16().requires_grad_()  # what a linear layer gives under autocast
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mine, theirs = causal_conv(x, weight, bias), reference(x, weight, bias)
    assert mine.dtype == theirs.dtype == torch.bfloat16
    # The library rounds to bfloat16 before the activation too.
    torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=1e-2)
    slope = torch.ones_like(mine)
    found = torch.autograd.grad(mine, (x, weight, bias), slope)
    wanted = torch.autograd.grad(theirs, (x, weight, bias), slope)
    for a, b, of in zip(found, wanted, (x, weight, bias), strict=True):
        assert a.dtype == b.dtype == of.dtype
        torch.testing.assert_close(a, b, rtol=2e-2, atol=0.2)


def test_low_precision_sums_in_the_precision_of_the_parameters():
    x, weight, bias = parts(length=32, dtype=torch.float32)
    rounded = x.detach().bfloat16()
    exact = reference(rounded.float(), weight, bias)
    torch.testing.assert_close(causal_conv(rounded, weight, bias), exact.bfloat16(), rtol=0, atol=0)


def test_positions_see_nothing_ahead():
    x, weight, bias = parts()
    later = x.detach().clone()
    later[:, 4:] += 1
    torch.testing.assert_close(
        causal_conv(later, weight, bias)[:, :4], causal_conv(x, weight, bias)[:, :4]
    )
