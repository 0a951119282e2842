"""The streaming form against the token loop: values, gradients, memory; and the layer's choice."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedscan.models import streaming_feedback as module
from fedscan.models import triangular
from fedscan.models.sessa import Sessa, construct
from fedscan.models.streaming_feedback import streaming_feedback

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
    found, slopes = outcome(lambda *p: streaming_feedback(*p, keep), parts)
    wanted, expected = outcome(loop, parts)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    narrow = [p.detach().float().requires_grad_() for p in parts]
    found, slopes = outcome(lambda *p: streaming_feedback(*p, keep), narrow)
    for ours, theirs in zip([found, *slopes], [wanted, *expected], strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= 1e-4 * theirs.norm() + 1e-5


def test_finite_differences(monkeypatch):
    monkeypatch.setattr(triangular, "BLOCK", 4)
    parts = drawn(9, width=2, keys=2, batch=1)
    assert torch.autograd.gradcheck(lambda *p: streaming_feedback(*p, False), parts)


@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_extreme_logits(monkeypatch, scale):
    monkeypatch.setattr(triangular, "BLOCK", 16)
    parts = drawn(50, scale=scale)
    found, slopes = outcome(streaming_feedback, parts)
    wanted, expected = outcome(loop, parts)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_strided_inputs_and_slopes():
    parts = drawn(40)
    turned = [p.detach().mT.contiguous().mT.requires_grad_() if p.ndim == 3 else p for p in parts]
    found, slopes = outcome(streaming_feedback, turned)
    wanted, expected = outcome(streaming_feedback, parts)
    torch.testing.assert_close(found, wanted)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


class Numbers(TorchDispatchMode):
    """The largest tensor that is made."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for part in made if isinstance(made, tuple | list) else (made,):
            if isinstance(part, torch.Tensor):
                self.largest = max(self.largest, part.numel())
        return made


def test_memory_is_linear_in_length():
    largest, saved = [], []
    for length in (1024, 2048, 4096):
        parts = drawn(length, batch=1, dtype=torch.float32)
        kept = []

        def pack(tensor, kept=kept):
            kept.append(tensor.numel())
            return tensor

        with Numbers() as seen, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = streaming_feedback(*parts, False)
            torch.autograd.grad(out.sum(), parts)
        largest.append(seen.largest)
        saved.append(sum(kept))
    assert largest[1] == 2 * largest[0]
    assert largest[2] == 4 * largest[0]
    assert largest[2] <= triangular.BLOCK * 4096
    assert saved[2] == 4 * saved[0]


def test_weights_are_kept_up_to_a_length(monkeypatch):
    monkeypatch.setattr(module, "KEPT_LENGTH", 10)
    counts = []
    for length in (10, 11):
        parts, kept = drawn(length), []

        def pack(tensor, kept=kept):
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            streaming_feedback(*parts)
        counts.append(len(kept))
    assert counts == [7, 6]


@pytest.mark.parametrize(
    "switched", [{}, {"selective_routing": False}, {"feedback_rotary": True}], ids=str
)
@pytest.mark.parametrize("length", [100, 200])
def test_a_layer_gives_the_same_whatever_its_form(switched, length):
    layer = Sessa(8, 2, **switched).double()
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    inner = torch.randn(2, length, 8, generator=torch.Generator().manual_seed(1)).double()
    wanted = triangular.feedback(layer.logits(inner), layer.gains(inner), layer.attend(inner))
    torch.testing.assert_close(layer.mix(inner), wanted, rtol=1e-9, atol=1e-10)
    wanted = torch.autograd.grad(wanted.sum(), list(layer.parameters()), allow_unused=True)
    found = torch.autograd.grad(layer.mix(inner).sum(), list(layer.parameters()), allow_unused=True)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_triton_on_a_cpu_is_refused():
    pytest.importorskip("triton")
    layer = Sessa(8, 2, kernels="triton")
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    with pytest.raises(
        ValueError, match="need a GPU, and the layer is on cpu: use kernels 'torch'"
    ):
        layer(torch.zeros(1, 4, 8))
