"""Token by token is one pass; full caches and wrong widths are refused; sampling."""

import pytest
import torch

from fedscan.models.generate import next_logits, sample
from fedscan.models.sequence_model import initialise
from fedscan.models.sequence_shape import KINDS, SequenceShape
from fedscan.models.sessa import Sessa, construct
from fedscan.models.sessa_decode import prefill, step

CASES = {
    "sessa": {},
    "no loop": {"loop": False},
    "one gain": {"selective_gain": False},
    "uniform": {"selective_routing": False},
    "rotary": {"feedback_rotary": True},
    "one head": {"heads": 1},
}
SHAPE = SequenceShape("sessa", 17, 16, 2, 2, 2, "authors", 0.999, 8, 8, False)


def built(heads=2, dtype=torch.float64, **switched):
    layer = Sessa(8, heads, **switched).to(dtype)
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    return layer.requires_grad_(False)


def tokens(length, dtype=torch.float64):
    return torch.randn(3, length, 8, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("first", [1, 5, 19])
@pytest.mark.parametrize("kind", CASES)
def test_prompt_and_steps_are_one_pass(kind, first):
    layer, hidden = built(**CASES[kind]), tokens(20)
    wanted = layer(hidden)
    out, cache = prefill(layer, hidden[:, :first], 20)
    parts = [out]
    for t in range(first, 20):
        one, cache = step(layer, hidden[:, t], cache)
        parts.append(one[:, None])
    # Angles are in float32, whatever the position they are of.
    torch.testing.assert_close(torch.cat(parts, dim=1), wanted, rtol=1e-6, atol=1e-8)
    assert cache.length == 20


def test_single_precision():
    layer, hidden = built(dtype=torch.float32), tokens(200, torch.float32)
    out, cache = prefill(layer, hidden[:, :150], 200)
    for t in range(150, 200):
        one, cache = step(layer, hidden[:, t], cache)
        torch.testing.assert_close(one, layer(hidden[:, : t + 1])[:, -1], rtol=1e-4, atol=1e-5)
    assert out.shape == (3, 150, 8)


def test_a_cache_has_four_numbers_a_token_and_channel():
    def count(layer):
        _, cache = prefill(layer, tokens(2), 10)
        parts = (cache.keys, cache.values, cache.feedback_keys, cache.s)
        return sum(part.numel() for part in parts if part is not None)

    assert count(built()) == 3 * 10 * 8 * 4
    assert count(built(loop=False)) == 3 * 10 * 8 * 2


def test_what_does_not_fit_is_refused():
    layer = built()
    with pytest.raises(ValueError, match="a prompt of 4 tokens; the cache has room for 3"):
        prefill(layer, tokens(4), 3)
    _, cache = prefill(layer, tokens(3), 3)
    with pytest.raises(ValueError, match="the cache is full: it has room for 3 tokens"):
        step(layer, tokens(1)[:, 0], cache)
    _, cache = prefill(layer, tokens(3), 5)
    with pytest.raises(ValueError, match="2 heads; the cache is of 3 sequences, 2 heads of 4"):
        step(layer, tokens(1)[:2, 0], cache)
    with pytest.raises(ValueError, match="for 1 heads"):
        step(built(heads=1), tokens(1)[:, 0], cache)


@pytest.mark.parametrize("mixer", KINDS)
def test_a_models_next_logits_are_those_of_the_whole(mixer):
    model = initialise(SHAPE._replace(mixer=mixer), 0).double().requires_grad_(False)
    ids = torch.arange(24).reshape(2, 12) % 17
    run = next_logits(model, ids[:, :4], 8)
    found = next(run)
    for t in range(4, 12):
        wanted = model.logits(model(ids[:, :t])[:, -1])
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)
        found = run.send(ids[:, t])


def test_samples_follow_the_model():
    model = initialise(SHAPE, 0).requires_grad_(False)
    prompt = torch.tensor([1, 2, 3])
    greedy = sample(model, prompt, 6, 0.0, 0)
    ids = prompt
    for token in greedy:
        assert int(model.logits(model(ids[None]))[0, -1].argmax()) == int(token)
        ids = torch.cat([ids, token[None]])
    drawn = sample(model, prompt, 40, 1.0, 3)
    assert torch.equal(drawn, sample(model, prompt, 40, 1.0, 3))
    assert not torch.equal(drawn, sample(model, prompt, 40, 1.0, 4))
    # Nearly no temperature is none.
    assert torch.equal(sample(model, prompt, 6, 1e-6, 0), greedy)
