"""Training with warm-up and decay: against torch's own optimiser, in parts, and non-finite."""

import math

import pytest
import torch

from fedscan.problems.central_steps import Diverged
from fedscan.problems.scheduled_training import (
    Recipe,
    batch_rows,
    learning_rate,
    start,
    train,
)

RECIPE = Recipe(20, 4, 0.05, (0.9, 0.98), 1e-8, 0.1, 1.0, 0.2)


def initial():
    g = torch.Generator().manual_seed(0)
    return {"w": torch.randn(3, 2, generator=g), "b": torch.randn(2, generator=g)}


def gradient(params, batch):
    leaves = {n: t.detach().requires_grad_() for n, t in params.items()}
    with torch.enable_grad():
        loss = ((batch @ leaves["w"] + leaves["b"]) ** 2).mean() * 5
    found = torch.autograd.grad(loss, list(leaves.values()))
    return loss.detach(), dict(zip(leaves, found, strict=True))


def batches():
    g = torch.Generator().manual_seed(1)
    return [torch.randn(4, 3, generator=g) for _ in range(RECIPE.steps)]


def test_steps_are_those_of_torchs_optimiser():
    mine = train(gradient, batches(), RECIPE, start(initial()))
    w, b = (t.clone().requires_grad_() for t in initial().values())
    groups = [{"params": [w], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-8)
    for step, batch in enumerate(batches(), 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(RECIPE, step)
        optimiser.zero_grad()
        (((batch @ w + b) ** 2).mean() * 5).backward()
        torch.nn.utils.clip_grad_norm_([w, b], 1.0)
        optimiser.step()
    torch.testing.assert_close(mine.state.params["w"], w.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mine.state.params["b"], b.detach(), rtol=1e-5, atol=1e-6)
    assert mine.losses[-1] < mine.losses[0]


@pytest.mark.parametrize("cut", [1, 7, 19])
def test_training_in_parts_gives_the_same_bytes(cut):
    whole = train(gradient, batches(), RECIPE, start(initial())).state
    part = train(gradient, batches()[:cut], RECIPE, start(initial())).state
    rest = train(gradient, batches()[cut:], RECIPE, part).state
    assert rest.step == whole.step == RECIPE.steps
    for tree in ("params", "first", "second"):
        for name, tensor in getattr(whole, tree).items():
            assert torch.equal(getattr(rest, tree)[name], tensor)


def test_rates_warm_up_and_end_at_a_tenth():
    rates = [learning_rate(RECIPE, step) for step in range(1, 21)]
    assert rates[:4] == pytest.approx([0.0125, 0.025, 0.0375, 0.05])
    assert rates[-1] == pytest.approx(0.005)
    assert rates[3:] == sorted(rates[3:], reverse=True)
    # Halfway down the cosine is the middle of peak and end.
    assert rates[11] == pytest.approx((0.05 + 0.005) / 2)


@pytest.mark.parametrize(("what", "value"), [("loss", math.nan), ("gradient", math.inf)])
def test_the_first_non_finite_step_is_named(what, value):
    def broken(params, batch):
        loss, slope = gradient(params, batch)
        if batch is found[5]:
            if what == "loss":
                loss = loss * value
            slope = {n: t * value for n, t in slope.items()}
        return loss, slope

    found = batches()
    with pytest.raises(Diverged, match=f"non-finite {what} at step 6") as error:
        train(broken, found, RECIPE, start(initial()))
    assert error.value.step == 6


def test_every_epoch_has_each_example_once():
    rows = batch_rows(10, 4, 0, "soup")
    seen = [i for _ in range(5) for i in next(rows)]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]
    again = batch_rows(10, 4, 0, "soup")
    assert [next(again) for _ in range(5)] == [seen[i : i + 4] for i in range(0, 20, 4)]
    assert next(batch_rows(10, 4, 1, "soup")) != seen[:4]
