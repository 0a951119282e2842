"""Feedback attention against a token loop in float64: values, gradients, memory."""

import pytest
import torch

from fedscan.measure.largest_tensor import LargestTensor
from fedscan.models import triangular
from fedscan.models.sessa import Sessa, construct
from fedscan.models.triangular import feedback
from fedscan.theory.feedback import uniform_response

LENGTHS = [1, 2, 63, 64, 65, 100, 129]


def loop(q, k, gains, f):
    """The definition, a token at a time; autograd goes through it."""
    rows = []
    for t in range(f.shape[1]):
        s = f[:, t]
        if t:
            alpha = (q[:, t, None] @ k[:, :t].mT)[:, 0].softmax(-1)
            earlier = torch.stack(rows, dim=1)
            s = s + gains[:, t, None] * (alpha[:, None] @ earlier)[:, 0]
        rows.append(s)
    return torch.stack(rows, dim=1)


def drawn(length, width=5, keys=3, batch=2, seed=0, dtype=torch.float64, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    parts = [
        scale * torch.randn(batch, length, keys, generator=g, dtype=torch.float64),
        torch.randn(batch, length, keys, generator=g, dtype=torch.float64),
        0.95 * torch.tanh(torch.randn(batch, length, generator=g, dtype=torch.float64)),
        torch.randn(batch, length, width, generator=g, dtype=torch.float64),
    ]
    return [part.to(dtype).requires_grad_() for part in parts]


def outcome(run, parts):
    out = run(*parts)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    slopes = torch.autograd.grad((out * weight).sum(), parts, allow_unused=True)
    return out, [
        torch.zeros_like(p) if s is None else s for s, p in zip(slopes, parts, strict=True)
    ]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("block", [16, 128])
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients_are_the_loops(monkeypatch, length, block, keep):
    monkeypatch.setattr(triangular, "BLOCK", block)
    parts = drawn(length)
    found, slopes = outcome(lambda *p: feedback(*p, keep), parts)
    wanted, expected = outcome(loop, parts)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    narrow = [p.detach().float().requires_grad_() for p in parts]
    found, slopes = outcome(lambda *p: feedback(*p, keep), narrow)
    for ours, theirs in zip([found, *slopes], [wanted, *expected], strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= 1e-4 * theirs.norm() + 1e-5


def test_finite_differences(monkeypatch):
    monkeypatch.setattr(triangular, "BLOCK", 4)
    parts = drawn(9, width=2, keys=2, batch=1)
    assert torch.autograd.gradcheck(lambda *p: feedback(*p, False), parts)


@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_extreme_logits(monkeypatch, scale):
    monkeypatch.setattr(triangular, "BLOCK", 16)
    parts = drawn(50, scale=scale)
    found, slopes = outcome(feedback, parts)
    wanted, expected = outcome(loop, parts)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_strided_inputs_and_slopes():
    parts = drawn(40)
    turned = [p.detach().mT.contiguous().mT.requires_grad_() if p.ndim == 3 else p for p in parts]
    found, slopes = outcome(feedback, turned)
    wanted, expected = outcome(feedback, parts)
    torch.testing.assert_close(found, wanted)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_memory_is_linear_in_length():
    largest, saved = [], []
    for length in (1024, 2048, 4096):
        parts = drawn(length, batch=1, dtype=torch.float32)
        kept = []

        def pack(tensor, kept=kept):
            kept.append(tensor.numel())
            return tensor

        with LargestTensor() as seen, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = feedback(*parts, False)
            torch.autograd.grad(out.sum(), parts)
        largest.append(seen.numbers)
        saved.append(sum(kept))
    assert largest[1] == 2 * largest[0]
    assert largest[2] == 4 * largest[0]
    assert largest[2] <= triangular.BLOCK * 4096
    assert saved[2] == 4 * saved[0]


def test_weights_are_kept_up_to_a_length(monkeypatch):
    monkeypatch.setattr(triangular, "KEPT_LENGTH", 10)
    counts = []
    for length in (10, 11):
        parts, kept = drawn(length), []

        def pack(tensor, kept=kept):
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            feedback(*parts)
        counts.append(len(kept))
    assert counts == [7, 6]


def test_without_gain_the_input_comes_back():
    q, k, gains, f = (part.detach() for part in drawn(9))
    assert torch.equal(feedback(q, k, 0 * gains, f), f)


def test_a_later_input_changes_nothing_earlier():
    q, k, gains, f = (part.detach() for part in drawn(20))
    moved = f.clone()
    moved[:, 12] += 1
    before, after = feedback(q, k, gains, f), feedback(q, k, gains, moved)
    assert torch.equal(before[:, :12], after[:, :12])
    assert not torch.equal(before[:, 12:], after[:, 12:])


def test_solutions_stay_within_their_bound():
    # Lemma 4.2: max |s| <= max |f| / (1 - rho), approached by uniform rows and constant gain.
    length, rho = 400, 0.8
    f = torch.ones(1, length, 1, dtype=torch.float64)
    gains = torch.full((1, length), rho, dtype=torch.float64)
    nothing = torch.zeros(1, length, 1, dtype=torch.float64)
    s = feedback(nothing, nothing, gains, f)
    assert float(s.max()) < 1 / (1 - rho)
    # Closed form of uniform routing (F.2, ours).
    closed = torch.from_numpy(uniform_response(rho, length))
    torch.testing.assert_close(s[0, :, 0], closed, rtol=1e-9, atol=1e-9)


def test_triton_on_a_cpu_is_refused():
    pytest.importorskip("triton")
    layer = Sessa(8, 2, kernels="triton")
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    with pytest.raises(
        ValueError, match="need a GPU, and the layer is on cpu: use kernels 'torch'"
    ):
        layer(torch.zeros(1, 4, 8))
