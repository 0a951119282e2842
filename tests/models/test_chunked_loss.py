"""The chunked loss of the head against torch's cross-entropy: values and gradients."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from fedscan.models.chunked_loss import FLOAT16_SCALE, chunked_loss, nats_and_slopes


def case(positions, vocabulary=37, width=6, dtype=torch.float64):
    g = torch.Generator().manual_seed(positions)
    hidden = torch.randn(positions, width, generator=g, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, width, generator=g, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, vocabulary, (positions,), generator=g)


@pytest.mark.parametrize("positions", [1, 7, 8, 20])
@pytest.mark.parametrize("rows", [1, 8, 64])
def test_value_and_gradients_are_cross_entropys(positions, rows):
    hidden, weight, targets = case(positions)
    expected = F.cross_entropy(hidden @ weight.T, targets)
    wanted = torch.autograd.grad(expected * 3.0, [hidden, weight])
    loss = chunked_loss(hidden, weight, targets, rows)
    found = torch.autograd.grad(loss * 3.0, [hidden, weight])
    torch.testing.assert_close(loss, expected, rtol=1e-14, atol=0)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("entries", [1, 37, 3 * 37 + 1])
def test_exponentials_in_pieces_are_those_of_the_whole(monkeypatch, entries):
    hidden, weight, targets = case(20)
    whole = chunked_loss(hidden, weight, targets)
    wanted = torch.autograd.grad(whole, [hidden, weight])
    monkeypatch.setattr("fedscan.models.chunked_loss.CACHED", entries)
    loss = chunked_loss(hidden, weight, targets)
    torch.testing.assert_close(loss, whole, rtol=1e-14, atol=0)
    # Rows do not touch one another: nothing but the order of the losses' sum changes.
    for ours, theirs in zip(torch.autograd.grad(loss, [hidden, weight]), wanted, strict=True):
        assert torch.equal(ours, theirs)


def test_without_gradients_the_value_is_the_same():
    hidden, weight, targets = case(20)
    loss = chunked_loss(hidden, weight, targets, 8)
    with torch.no_grad():
        assert torch.equal(chunked_loss(hidden.detach(), weight.detach(), targets, 8), loss)


def test_a_confident_prediction_keeps_its_slope():
    logits = torch.tensor([[0.0, 6.0, 0.0]], dtype=torch.float16)
    target = torch.tensor([1])
    exact = F.softmax(logits.double(), 1) - F.one_hot(target, 3)
    nats_and_slopes(logits, target, FLOAT16_SCALE, torch.float32, True)
    torch.testing.assert_close(logits.double() / FLOAT16_SCALE, exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_autocast_narrows_the_inputs_of_products_alone(narrow):
    hidden, weight, targets = case(50, vocabulary=5000, dtype=torch.float32)
    with torch.autocast("cpu", dtype=narrow):
        loss = chunked_loss(hidden, weight, targets, 16)
    found = torch.autograd.grad(loss, [hidden, weight])
    expected = F.cross_entropy(hidden @ weight.T, targets)
    wanted = torch.autograd.grad(expected, [hidden, weight])
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=2e-2)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 2e-2 * theirs.norm()


def test_narrow_hidden_states_get_a_gradient_that_loss_scaling_keeps():
    hidden, weight, targets = case(4000, dtype=torch.float32)
    narrow = (1e-4 * hidden).detach().half().requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = chunked_loss(narrow, weight, targets)
    (found,) = torch.autograd.grad(65536.0 * loss, [narrow])
    wide = narrow.detach().float().requires_grad_()
    (wanted,) = torch.autograd.grad(F.cross_entropy(wide @ weight.T, targets), [wide])
    assert loss.dtype == torch.float32
    assert found.dtype == torch.float16
    assert (found.float() / 65536.0 - wanted).norm() < 1e-2 * wanted.norm()


TRITON = """
import torch
from fedscan.models import chunked_loss, softmax_kernel
g = torch.Generator().manual_seed(0)
for dtype, error in ((torch.float64, 1e-14), (torch.float32, 2e-6), (torch.float16, 2e-3)):
    for columns in (5, 4096, 4099, 4104):
        logits = (4 * torch.randn(3, columns, generator=g, dtype=torch.float64)).to(dtype)
        logits[1, 2] = 30.0
        targets = torch.tensor([columns - 1, 2, 0])
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        for differentiate in (False, True):
            ours, theirs = logits.clone(), logits.clone()
            found = softmax_kernel.nats_and_slopes(ours, targets, 16.0, differentiate).sum()
            wanted = chunked_loss.nats_and_slopes(theirs, targets, 16.0, wide, differentiate)
            assert abs(found - wanted) <= error * abs(wanted), (dtype, columns, found, wanted)
            gap = (ours.double() - theirs.double()).norm() / theirs.double().norm()
            assert gap <= error, (dtype, columns, gap)
            assert torch.equal(ours, logits) != differentiate
print("equal")
"""


def test_triton_kernel_in_the_interpreter():
    # A process of its own: the interpreter is chosen when triton is imported.
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", TRITON],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "equal\n", done.stderr
