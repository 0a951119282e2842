"""Feedback attention against a token loop in float64: values and gradients, blocked and not."""

import pytest
import torch

from fedscan.models import triangular
from fedscan.models.triangular import feedback

LENGTHS = [1, 2, 63, 64, 65, 100, 129]


def loop(logits, gains, f):
    """The definition, a token at a time; autograd goes through it."""
    rows = []
    for t in range(f.shape[1]):
        s = f[:, t]
        if t:
            alpha = logits[:, t, :t].softmax(-1)
            earlier = torch.stack(rows, dim=1)
            s = s + gains[:, t, None] * (alpha[:, None] @ earlier)[:, 0]
        rows.append(s)
    return torch.stack(rows, dim=1)


def drawn(length, width=5, batch=2, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    parts = (
        3 * torch.randn(batch, length, length, generator=g, dtype=dtype),
        torch.rand(batch, length, generator=g, dtype=dtype) * 1.8 - 0.9,
        torch.randn(batch, length, width, generator=g, dtype=dtype),
    )
    return [part.requires_grad_() for part in parts]


def results(form, parts, seed=9):
    s = form(*parts)
    g = torch.Generator().manual_seed(seed)
    slope = torch.randn(s.shape, generator=g, dtype=s.dtype)
    return s, torch.autograd.grad(s, parts, slope, allow_unused=True)


@pytest.fixture(params=["whole", "blocked"])
def form(request, monkeypatch):
    if request.param == "blocked":
        monkeypatch.setattr(triangular, "BLOCK", 32)
    else:
        monkeypatch.setattr(triangular, "BLOCK", 1000)
    return feedback


@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients_are_the_loops(form, length):
    parts = drawn(length)
    wanted, slopes = results(loop, parts)
    found, own = results(form, parts)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for mine, theirs, part in zip(own, slopes, parts, strict=True):
        theirs = torch.zeros_like(part) if theirs is None else theirs
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("length", LENGTHS)
def test_float32_is_near(form, length):
    exact, slopes = results(loop, drawn(length))
    parts = [part.detach().float().requires_grad_() for part in drawn(length)]
    found, own = results(form, parts)
    g = torch.Generator().manual_seed(9)
    slope = torch.randn(exact.shape, generator=g, dtype=torch.float64).float()
    own = torch.autograd.grad(form(*parts), parts, slope)
    assert float((found - exact).norm() / exact.norm()) < 1e-5
    for mine, theirs in zip(own, slopes, strict=True):
        if theirs is not None and theirs.norm() > 0:
            assert float((mine - theirs).norm() / theirs.norm()) < 1e-4


def test_gradients_by_differences():
    parts = drawn(7, width=3, batch=1)
    assert torch.autograd.gradcheck(feedback, parts, eps=1e-6, atol=1e-6)


def test_entries_on_and_above_the_diagonal_are_not_read():
    logits, gains, f = (part.detach() for part in drawn(9))
    changed = logits + torch.full_like(logits, 1e3).triu()
    assert torch.equal(feedback(changed, gains, f), feedback(logits, gains, f))
    nan = logits.clone()
    nan[:, 0, 0] = float("nan")
    assert torch.isfinite(feedback(nan, gains, f)).all()


def test_without_gain_the_input_comes_back():
    logits, _, f = (part.detach() for part in drawn(9))
    assert torch.equal(feedback(logits, torch.zeros(2, 9, dtype=torch.float64), f), f)


def test_a_later_input_changes_nothing_earlier():
    logits, gains, f = (part.detach() for part in drawn(20))
    moved = f.clone()
    moved[:, 12] += 1
    before, after = feedback(logits, gains, f), feedback(logits, gains, moved)
    assert torch.equal(before[:, :12], after[:, :12])
    assert not torch.equal(before[:, 12:], after[:, 12:])


def test_solutions_stay_within_their_bound():
    # Lemma 4.2: max |s| <= max |f| / (1 - rho), approached by uniform rows and constant gain.
    length, rho = 400, 0.8
    f = torch.ones(1, length, 1, dtype=torch.float64)
    gains = torch.full((1, length), rho, dtype=torch.float64)
    s = feedback(torch.zeros(1, length, length, dtype=torch.float64), gains, f)
    assert float(s.max()) < 1 / (1 - rho)
    t = torch.arange(length, dtype=torch.float64)
    # Closed form of uniform routing (F.2, ours): 1 - rho Gamma(t + rho) / (Gamma(rho) Gamma(t+1)).
    ratio = (
        torch.lgamma(t + rho) - torch.lgamma(torch.tensor(rho, dtype=t.dtype)) - torch.lgamma(t + 1)
    )
    closed = (1 - rho * ratio.exp()) / (1 - rho)
    torch.testing.assert_close(s[0, :, 0], closed, rtol=1e-9, atol=1e-9)
