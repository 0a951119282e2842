"""Layers over depth: against plain NumPy, the language model, and properties."""

import itertools
import math
from itertools import repeat

import numpy as np
import pytest
import torch

from fedscan.measure.consensus import agreement, norms
from fedscan.models.analysed_ssm import own_interaction, readout
from fedscan.models.architecture import Architecture, layout
from fedscan.models.depth_iteration import (
    Applied,
    Form,
    Update,
    apply_mixer,
    in_turn,
    mixer_layers,
    to_sphere,
    trajectory,
)
from fedscan.models.initialise import initialise
from fedscan.models.redraw import redrawn_analysed
from tests.oracles import depth_iteration as oracle

SHAPE = Architecture(
    mixers=layout(3), d_model=16, d_state=6, d_conv=4, expand=2, headdim=8, ngroups=1,
    attention_heads=2, vocab_size=60, pad_vocab_size_multiple=4, chunk_size=8,
)  # fmt: skip
GROUPED = SHAPE._replace(ngroups=2)
FORMS = [
    Form(*values) for values in itertools.product((1.0, 0.0, 0.25), (True, False), (True, False))
]


def model(shape=SHAPE, seed=3):
    """In float64, with every weight away from the values of a new model."""
    made = initialise(shape, seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in made.parameters():
            value += 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return made


def tokens(draws=3, count=11, seed=0, width=16):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(draws, count, width, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("shape", [SHAPE, GROUPED], ids=["one group", "two groups"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_layer_by_hand(shape, form):
    made, x = model(shape), tokens()
    state = made.backbone.layers[1].state_dict()
    sizes = 4, 8, shape.ngroups, 6, 4
    with torch.no_grad():
        found = apply_mixer(x, mixer_layers(made)[1], form)
    for draw in range(len(x)):
        output, q_layer, q_token, steps = oracle.layer(x[draw], state, sizes, *form)
        np.testing.assert_allclose(found.output[draw], output, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.q_layer[draw], q_layer, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.q_token[draw], q_token, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.step_sizes[draw], steps, rtol=1e-12)


def test_the_first_layers_are_the_language_models_residual_stream():
    made = model()
    ids = torch.randint(60, (2, 11), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        residual = made.backbone.embedding(ids)
        layers = in_turn(mixer_layers(made), Form())
        for position in trajectory(residual, layers, 3, Update()):
            torch.testing.assert_close(position.tokens, residual, rtol=1e-12, atol=1e-12)
            if position.depth < 3:
                residual = made.backbone.layers[position.depth](residual)
        logits = made.lm_head(made.backbone.norm_f(position.tokens))
        torch.testing.assert_close(logits, made(ids), rtol=1e-12, atol=1e-12)


def test_layers_are_visited_in_turn():
    layers = mixer_layers(model())
    x = tokens()
    made = in_turn(layers, Form())
    with torch.no_grad():
        for index in range(7):
            torch.testing.assert_close(
                next(made)(x).output, apply_mixer(x, layers[index % 3], Form()).output
            )


def test_without_gate_the_gates_weights_are_not_read():
    layer = mixer_layers(model())[0]
    broken = layer._replace(gate=torch.full_like(layer.gate, math.nan))
    x = tokens()
    for form in (Form(gate=0.0), Form(gate=0.0, silu=False)):
        assert torch.equal(apply_mixer(x, broken, form).output, apply_mixer(x, layer, form).output)
    assert not torch.isfinite(apply_mixer(x, broken, Form()).output).any()


def test_without_convolution_its_weights_are_not_read_and_both_interactions_agree():
    layer = mixer_layers(model())[0]
    nothing = torch.full_like(layer.conv_bias, math.nan)
    found = apply_mixer(tokens(), layer._replace(conv_bias=nothing), Form(conv=False))
    assert torch.isfinite(found.output).all()
    assert torch.equal(found.q_layer, found.q_token)


@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_later_xchange_no_earlier_one(form):
    layer, x = mixer_layers(model())[0], tokens()
    changed = x.clone()
    changed[:, 7:] += 1
    before, after = apply_mixer(x, layer, form), apply_mixer(changed, layer, form)
    torch.testing.assert_close(before.output[:, :7], after.output[:, :7], rtol=0, atol=1e-13)
    assert not torch.allclose(before.output[:, 7:], after.output[:, 7:])


def test_the_scale_of_xchanges_a_layer_by_eps_only():
    layer, x = mixer_layers(model())[0], tokens()
    whole, half = (apply_mixer(s * x, layer, Form()).output for s in (1.0, 0.5))
    difference = (whole - half).abs().max()
    assert 0 < difference < 1e-3
    near, nearer = (apply_mixer(s * x, layer, Form()).output for s in (1e3, 5e2))
    torch.testing.assert_close(near, nearer, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("system", "update"),
    [
        ("mixer", Update()),
        ("mixer", Update(0.1, sphere=True)),
        ("analysed", Update(0.1, sphere=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_draw_does_not_depend_on_the_others(dtype, update, system):
    width = 40
    weights = redrawn_analysed(width, 16, torch.Generator().manual_seed(0), dtype)
    layers = mixer_layers(model(SHAPE._replace(d_model=width)).to(dtype))

    def analysed(z):
        q = own_interaction(z, weights, True)
        return Applied(readout(z, weights, True), q, q, None)

    x = tokens(7, 33, width=width).to(dtype)
    ends = {}
    for size in (1, 3, 7):
        parts = x.split(size)
        made = {"mixer": lambda: in_turn(layers, Form()), "analysed": lambda: repeat(analysed)}
        last = [list(trajectory(p, made[system](), 24, update))[-1] for p in parts]
        ends[size] = (
            torch.cat([p.tokens for p in last]),
            torch.cat([p.applied.q_token for p in last]),
            torch.cat([p.applied.q_layer for p in last]),
        )
    for size in (3, 7):
        for alone, beside in zip(ends[1], ends[size], strict=True):
            assert torch.equal(alone, beside)


def test_float32_agrees_with_float64_at_the_papers_depth():
    ends = []
    for dtype in (torch.float32, torch.float64):
        layers = in_turn(mixer_layers(initialise(SHAPE, 0).to(dtype)), Form(gate=0.0))
        *_, last = trajectory(tokens().to(dtype), layers, 200, Update())
        x = last.tokens.detach().numpy()
        ends.append(agreement(x, norms(x)).lambda1)
    np.testing.assert_allclose(*ends, atol=1e-5)


def test_on_the_sphere_xkeep_their_norm():
    layers = in_turn(mixer_layers(model()), Form())
    for position in trajectory(tokens(), layers, 4, Update(0.3, sphere=True)):
        norms = position.tokens.detach().norm(dim=-1)
        torch.testing.assert_close(norms, torch.full_like(norms, 4.0))


def test_a_step_is_tau_times_the_output():
    layers = mixer_layers(model())
    x = tokens()
    _, position = trajectory(x, in_turn(layers, Form()), 1, Update(tau=0.3))
    torch.testing.assert_close(position.tokens, x + 0.3 * apply_mixer(x, layers[0], Form()).output)


def test_a_zero_token_has_no_place_on_the_sphere():
    assert torch.isnan(to_sphere(torch.zeros(1, 2, 3))).all()


def test_attention_is_refused():
    mixed = initialise(SHAPE._replace(mixers=layout(SHAPE.depth, (1,))), 0)
    with pytest.raises(TypeError, match="Attention"):
        mixer_layers(mixed)
