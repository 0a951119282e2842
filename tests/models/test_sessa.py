"""Sessa's layer against its definition token by token, its counts, and the loop switched off."""

import math

import numpy as np
import pytest
import torch

from fedscan.models.sequence_shape import sessa_parameters
from fedscan.models.sessa import INITIAL_GAIN_BIAS, Sessa, construct

FORMS = [("authors", 1), ("authors", 2), ("paper", 1), ("paper", 2)]


def built(width=16, heads=2, form="authors", seed=0, **more):
    layer = Sessa(width, heads, form, **more).double()
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(seed))
    return layer


def tokens(length=9, width=16, batch=2, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, width, generator=g, dtype=torch.float64)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def turned(x, position):
    """Rotary positions, halves paired: the r-th pair turns by position * 10000^(-2r/width)."""
    half = len(x) // 2
    angles = position * 10000.0 ** (-2 * np.arange(half) / len(x))
    first, second = x[:half], x[half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos])


def by_hand(layer, hidden):
    """One sequence, in NumPy, a token at a time."""
    w = {name: value.detach().numpy() for name, value in layer.named_parameters()}

    def apply(name, x):
        return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0)

    width, heads = hidden.shape[1], layer.heads
    a, g = zip(*(np.split(apply("in_proj", u), 2) for u in hidden), strict=True)
    inner = [gelu(x) for x in a]
    size = width // heads
    q, k, v = ([apply(f"{n}_proj", x) for x in inner] for n in "qkv")
    s = []
    for t in range(len(hidden)):
        parts = []
        for head in range(heads):
            at = slice(head * size, (head + 1) * size)
            query = turned(q[t][at], t)
            logits = [query @ turned(k[j][at], j) / math.sqrt(size) for j in range(t + 1)]
            weights = np.exp(logits - np.max(logits))
            weights /= weights.sum()
            parts.append(sum(weight * v[j][at] for j, weight in enumerate(weights)))
        f = np.concatenate(parts)
        if heads > 1:
            f = w["forward_proj.weight"] @ f
        if layer.loop and t:
            own, _ = np.split(apply("feedback_proj", inner[t]), 2)
            keys = [np.split(apply("feedback_proj", x), 2)[1] for x in inner[:t]]
            logits = np.array([own @ key / math.sqrt(width) for key in keys])
            weights = np.exp(logits - logits.max())
            weights /= weights.sum()
            gain = layer.gain_max * np.tanh(w["gain_proj.weight"][0] @ inner[t] + w["gain_bias"][0])
            f = f + gain * sum(weight * s[j] for j, weight in enumerate(weights))
        s.append(f)
    return np.stack([apply("out_proj", x * y) for x, y in zip(s, g, strict=True)])


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize(("form", "heads"), FORMS)
def test_a_layer_by_hand(form, heads, loop):
    layer, hidden = built(heads=heads, form=form, loop=loop), tokens()
    found = layer(hidden).detach().numpy()
    for index in range(len(hidden)):
        wanted = by_hand(layer, hidden[index].numpy())
        # rotate() has its angles in float32.
        np.testing.assert_allclose(found[index], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "heads", "form", "loop", "count"),
    [
        # The specification's blocks, less the norm's 2 D.
        (32, 2, "authors", True, 9_569 - 64),
        (128, 4, "authors", True, 148_865 - 256),
        (512, 8, "authors", True, 2_364_929 - 1024),
        (32, 1, "authors", True, 8_545 - 64),
        (128, 1, "authors", True, 132_481 - 256),
        (32, 1, "paper", True, 8_385 - 64),
        (128, 1, "paper", True, 131_841 - 256),
        (512, 1, "paper", True, 2_100_225 - 1024),
        (32, 2, "authors", False, 7_424 - 64),
        (128, 1, "authors", False, 99_328 - 256),
    ],
)
def test_parameters_are_counted(width, heads, form, loop, count):
    layer = Sessa(width, heads, form, loop=loop)
    assert sum(p.numel() for p in layer.parameters()) == count
    assert sessa_parameters(width, heads, form, loop=loop) == count


def test_initial_values():
    layer = built(width=64, heads=4)
    assert layer.gain_bias.item() == INITIAL_GAIN_BIAS
    for name, value in layer.named_parameters():
        if name != "gain_bias":
            bound = 1 / math.sqrt(64)
            assert float(value.detach().abs().max()) <= bound, name
            assert float(value.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.35), (
                name
            )
    assert torch.equal(built(width=64, heads=4).q_proj.weight, layer.q_proj.weight)
    # Gains start near 0.999 tanh 1.
    gains = layer.gains(0 * tokens(width=64))
    torch.testing.assert_close(gains, torch.full_like(gains, 0.999 * math.tanh(1)))


def test_every_parameter_has_a_gradient():
    layer = built()
    layer(tokens()).square().sum().backward()
    for name, value in layer.named_parameters():
        assert value.grad.abs().max() > 0, name


def test_later_tokens_change_no_earlier_one():
    layer, hidden = built(), tokens(length=12)
    changed = hidden.clone()
    changed[:, 7:] += 1
    before, after = layer(hidden), layer(changed)
    torch.testing.assert_close(after[:, :7], before[:, :7], rtol=0, atol=1e-14)
    assert not torch.allclose(after[:, 7:], before[:, 7:])


def test_one_token_has_no_loop():
    layer, hidden = built(), tokens(length=1)
    inner, gate = layer.in_proj(hidden).chunk(2, dim=-1)
    wanted = layer.out_proj(layer.attend(torch.nn.functional.gelu(inner)) * gate)
    torch.testing.assert_close(layer(hidden), wanted)


def test_autocast_keeps_the_loop_in_float32():
    layer = Sessa(16, 2)
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    hidden = tokens().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        s = layer.mix(torch.nn.functional.gelu(hidden))
        out = layer(hidden)
    assert s.dtype == torch.float32
    torch.testing.assert_close(out.float(), layer(hidden), rtol=0.1, atol=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((10, 4), "d_model 10 is no multiple of 2"),
        ((16, 2, "authors", 1.0), "gain_max 1.0 is not in"),
        ((16, 2, "paper", 0.0), "gain_max 0.0 is not in"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Sessa(*arguments)


def test_the_papers_form_may_have_gains_up_to_one():
    assert Sessa(16, 1, "paper", 1).gain_max == 1


@pytest.mark.parametrize(
    "switched",
    [{"selective_gain": False}, {"selective_routing": False}, {"feedback_rotary": True}],
    ids=str,
)
def test_a_removed_mechanism_is_counted_and_trained(switched):
    layer = built(**switched)
    counted = {k: v for k, v in switched.items() if k != "feedback_rotary"}
    count = sum(p.numel() for p in layer.parameters())
    assert count == sessa_parameters(16, 2, "authors", **counted)
    layer(tokens()).square().sum().backward()
    for name, value in layer.named_parameters():
        assert value.grad.abs().max() > 0, name


def test_one_gain_is_that_of_no_input():
    layer, plain = built(selective_gain=False), built()
    gains = layer.gains(tokens())
    assert gains.shape == (2, 9)
    torch.testing.assert_close(gains, plain.gains(0 * tokens()))


def test_uniform_routing_averages_what_came_before():
    layer, inner = built(selective_routing=False), tokens()
    s, f, gains = layer.mix(inner), layer.attend(inner), layer.gains(inner)
    for t in range(1, 9):
        wanted = f[:, t] + gains[:, t, None] * s[:, :t].mean(1)
        torch.testing.assert_close(s[:, t], wanted)


def test_rotary_feedback_sees_positions():
    layer, inner = built(feedback_rotary=True), tokens(length=6).mean(1, keepdim=True)
    same = inner.expand(-1, 6, -1)
    # Equal tokens: without positions every row is uniform.
    plain = built().logits(same)
    torch.testing.assert_close(plain, plain[:, :1, :1].expand_as(plain))
    turned = layer.logits(same)
    assert (turned[:, 3, 0] - turned[:, 3, 2]).abs().max() > 1e-3
    # Only distances count.
    torch.testing.assert_close(turned[:, 4, 2], turned[:, 3, 1], rtol=1e-5, atol=1e-6)
