"""Profiles against autograd and closed forms; the stage's rows, kept and made again."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedscan.experiments.sessa.diagnostics import DIFFUSE_GAIN, diffuse, without_gain
from fedscan.experiments.sessa.profiles import (
    inputs,
    jacobian_norms,
    profiles,
    regime,
    routing,
)
from fedscan.experiments.sessa.selection import best_rate
from fedscan.experiments.sessa.tables import DECAY, DIAGNOSED, JACOBIANS, REGIME
from fedscan.io import parquet
from fedscan.models.sequence_model import initialise
from fedscan.models.sequence_shape import SequenceShape
from fedscan.theory import feedback
from tests.experiments.sessa import tiny

SHAPE = SequenceShape("sessa", 13, 8, 2, 2, 2, "authors", 0.999, 8, 8, False)
IDS = torch.arange(26).reshape(2, 13) % 13


def built(mixer="sessa", params=None):
    model = initialise(SHAPE._replace(mixer=mixer), 3).double()
    if params is not None:
        model.load_state_dict(params)
    return model


def first(model):
    residual = model.embedding(IDS).detach()
    return model.blocks[0], residual


def frozen_slopes(layer, hidden):
    """d s_T / d v_tau of the mixer with its routing held, by autograd, summed over heads apart."""
    found = routing(layer, hidden)
    batch, length, _ = hidden.shape
    slopes = []
    for head in range(layer.heads):
        v = torch.zeros(batch, length, dtype=torch.float64, requires_grad=True)
        f = (found.forward[:, head] @ v[..., None])[..., 0]
        if found.feedback is not None:
            s = []
            for t in range(length):
                earlier = sum(
                    found.feedback[:, t, j] * s[j] for j in range(t)
                ) if t else 0  # fmt: skip
                s.append(f[:, t] + found.gains[:, t] * earlier)
            f = torch.stack(s, dim=1)
        slopes.append(torch.autograd.grad(f[:, -1].sum(), v)[0].abs().flip(-1))
    return slopes


@pytest.mark.parametrize("mixer", ["sessa", "mha", "sessa_uniform", "sessa_rope_feedback"])
def test_profiles_are_slopes_with_routing_held(mixer):
    model = built(mixer)
    block, residual = first(model)
    hidden = block.norm(residual).detach()
    found = {(p.kind, p.head): p.values for p in profiles(block.layer, hidden)}
    last = "mixer" if block.layer.loop else "forward"
    for head, wanted in enumerate(frozen_slopes(block.layer, hidden)):
        torch.testing.assert_close(found[last, head], wanted, rtol=1e-9, atol=1e-12)
    if block.layer.loop:
        B = routing(block.layer, hidden)
        for index in range(2):
            K = feedback.kernel((B.gains[..., None] * B.feedback)[index].detach().numpy())
            np.testing.assert_allclose(found["feedback", -1][index], np.abs(K[-1])[::-1], rtol=1e-9)


def test_routing_gives_the_layers_own_output():
    model = built()
    block, residual = first(model)
    hidden = block.norm(residual).detach()
    found = routing(block.layer, hidden)
    inner = F.gelu(block.layer.in_proj(hidden).chunk(2, dim=-1)[0])
    B = found.gains[..., None] * found.feedback
    s = torch.linalg.solve(torch.eye(13, dtype=B.dtype) - B, found.f)
    torch.testing.assert_close(s, block.layer.mix(inner), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("mixer", ["mamba2", "mamba2_plain"])
def test_memory_is_the_recurrences(mixer):
    model = built(mixer)
    block, residual = first(model)
    hidden = block.norm(residual).detach()
    layer = block.layer if mixer == "mamba2_plain" else block.layer.mixer
    inner = hidden
    if mixer == "mamba2":
        inner = F.gelu(block.layer.in_proj(hidden).chunk(2, dim=-1)[0])
    _, _, B, C, dt = layer.projections(inner)
    rates = layer.decay_rates()
    found = {(p.kind, p.head): p.values for p in profiles(block.layer, hidden)}
    for head in range(layer.nheads):
        # Run the recurrence of one head from a unit input at each source.
        for source in (0, 5, 12):
            memory, state = 1.0, dt[:, source, head, None] * B[:, source, 0]
            for t in range(source + 1, 13):
                keep = (dt[:, t, head] * rates[head]).exp()
                memory, state = memory * keep, state * keep[:, None]
            out = (C[:, -1, 0] * state).sum(-1).abs()
            torch.testing.assert_close(found["mixer", head][:, 12 - source], out)
            memory = torch.as_tensor(memory, dtype=torch.float64).expand(2)
            torch.testing.assert_close(found["memory", head][:, 12 - source], memory)


@pytest.mark.parametrize("mixer", ["sessa", "mha", "mamba2"])
def test_norms_are_those_of_the_jacobian(mixer):
    model = built(mixer)
    block, residual = first(model)
    found = jacobian_norms(block, residual)
    whole = torch.autograd.functional.jacobian(lambda x: block(x)[:, -1].sum(0), residual)
    wanted = torch.linalg.matrix_norm(whole.movedim(0, 2), ord=2).flip(-1)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_what_enters_a_block():
    model = built()
    embedded = model.embedding(IDS).detach()
    found = inputs(model.blocks, embedded)
    torch.testing.assert_close(found[1], model.blocks[0](embedded).detach())
    assert len(found) == 2


def test_a_diffuse_model_is_uniform_with_one_gain():
    params = {n: t.detach() for n, t in initialise(SHAPE, 3).named_parameters()}
    made = diffuse(SHAPE, params)
    model = built(params={n: t.double() for n, t in made.items()})
    block, residual = first(model)
    found = routing(block.layer, block.norm(residual).detach())
    t = torch.arange(1, 14, dtype=torch.float64)
    uniform = torch.ones(13, 13, dtype=torch.float64).tril() / t[:, None]
    torch.testing.assert_close(found.forward, uniform.expand_as(found.forward))
    torch.testing.assert_close(found.gains, torch.full_like(found.gains, DIFFUSE_GAIN))
    (loop,) = (p for p in profiles(block.layer, block.norm(residual).detach())
               if p.kind == "feedback")  # fmt: skip
    lags = np.arange(1, 13)
    wanted = feedback.uniform_kernel(DIFFUSE_GAIN, 12.0 - lags, lags)
    np.testing.assert_allclose(loop.values[0, 1:], wanted, rtol=1e-6)
    # Its realised constants are those of uniform routing: the bound applies, and holds.
    assert (loop.values[:, 1:] <= loop.bound[:, 1:]).all()
    assert diffuse(SHAPE._replace(mixer="mamba2"), {"blocks.0.layer.in_proj.weight": t}) is None


def test_gains_off_is_the_forward_attention_alone():
    model = built()
    params = {n: t.detach() for n, t in model.named_parameters()}
    model.load_state_dict(without_gain(params))
    block, residual = first(model)
    inner = F.gelu(block.layer.in_proj(block.norm(residual)).chunk(2, dim=-1)[0])
    torch.testing.assert_close(block.layer.mix(inner), block.layer.attend(inner))


def test_regime_of_uniform_routing():
    params = {n: t.detach() for n, t in initialise(SHAPE, 3).named_parameters()}
    model = built(params={n: t.double() for n, t in diffuse(SHAPE, params).items()})
    block, residual = first(model)
    found = dict(regime(block, residual))
    assert found["logit_spread"] == 0
    assert found["c2"] == pytest.approx(1)
    assert found["eta"] == pytest.approx(DIFFUSE_GAIN)
    assert found["implied_beta"] == pytest.approx(1 - DIFFUSE_GAIN)
    for name in ("entropy_forward", "support_forward", "entropy_feedback", "support_feedback"):
        assert found[name] == pytest.approx(1)
    hops = [found[f"hops_{k}"] for k in range(9)]
    assert hops == sorted(hops)
    assert hops[-1] <= 1


def test_regime_of_mamba2():
    model = built("mamba2")
    block, residual = first(model)
    found = dict(regime(block, residual))
    assert 0 < found["step_mean_min"] <= found["step_mean_median"]
    assert 0 < found["rate_min"] <= found["rate_max"]
    assert 0 <= found["heads_that_forget"] <= 1


def tables(folder):
    return [
        parquet.read_frame(Path(folder, f"{one.name}.parquet"), one)
        for one in (DIAGNOSED, JACOBIANS, DECAY, REGIME)
    ]


def test_rows_of_a_mixer(finished):
    diagnosed, norms, decay, found = tables(finished / "sessa/diagnostics/task=mqar/mixer=sessa")
    assert diagnosed["weights"].tolist() == ["initial", "diffuse", "trained"]
    assert diagnosed["lr"].isna().tolist() == [True, True, False]
    assert diagnosed["accuracy_no_gain"].notna().all()
    kinds = {"forward", "feedback", "mixer", "block", "stack"}
    assert set(norms["kind"]) == set(decay["kind"]) == kinds
    assert norms["lag"].min() == 1
    assert norms["lag"].max() == 16
    assert (norms["smallest"] <= norms["norm"] * (1 + 1e-9)).all()
    assert (norms["norm"] <= norms["largest"] * (1 + 1e-9)).all()
    assert not norms["violated"].any()
    assert norms[norms["weights"] == "diffuse"]["bound"].notna().any()
    assert math.isclose(
        found[(found["quantity"] == "eta") & (found["weights"] == "diffuse")]["value"].iloc[0],
        DIFFUSE_GAIN, rel_tol=1e-6,
    )  # fmt: skip
    plain, _, _, _ = tables(finished / "sessa/diagnostics/task=mqar/mixer=mha")
    assert plain["accuracy_no_gain"].isna().all()


def test_models_are_diagnosed_once_and_again_when_they_change(copy):
    lines = []
    tiny.diagnostics(copy, "mqar", "sessa", lines.append)
    assert lines == []
    before = tiny.bytes_of(copy / "sessa/diagnostics/task=mqar/mixer=sessa")
    changes = {"training": {"steps": {"mqar": 7}}}
    tiny.training(copy, "mqar", "sessa", **changes)
    tiny.diagnostics(copy, "mqar", "sessa", lines.append, **changes)
    assert lines == ["trained model of seed 0"]
    assert tiny.bytes_of(copy / "sessa/diagnostics/task=mqar/mixer=sessa") != before


def test_no_completed_run_is_said(copy):
    changes = {"training": {"lrs": [1e30]}}
    tiny.training(copy, "mqar", "sessa", **changes)
    tiny.diagnostics(copy, "mqar", "sessa", **changes)
    diagnosed, norms, _, _ = tables(copy / "sessa/diagnostics/task=mqar/mixer=sessa")
    row = diagnosed[diagnosed["weights"] == "trained"].iloc[0]
    assert (row["status"], row["failure"]) == (
        "failed",
        "no learning rate has all its seeds completed",
    )
    assert set(norms["weights"]) == {"initial", "diffuse"}


def test_one_rate_is_chosen_for_all_seeds():
    def row(seed, lr, loss, status="completed"):
        return {"seed": seed, "lr": lr, "validation_loss": loss, "status": status}

    rows = [row(0, 0.1, 2.0), row(1, 0.1, 2.0), row(0, 0.3, 0.5), row(1, 0.3, 3.0)]
    assert best_rate(rows) == 0.3
    # Of equal means the smaller rate; a failed seed takes its rate away.
    assert best_rate([*rows, row(0, 0.01, 1.75), row(1, 0.01, 1.75)]) == 0.01
    assert best_rate([*rows, row(2, 0.3, float("nan"), "failed")]) == 0.1
    assert best_rate([row(0, 0.1, float("nan"), "failed")]) is None
    assert best_rate([]) is None
