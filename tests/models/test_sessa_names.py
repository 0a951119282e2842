"""The released implementation's weights: its function, with its own rotation, is ours."""

import math

import pytest
import torch
import torch.nn.functional as F

from fedscan.models.sequence_model import Block, initialise
from fedscan.models.sequence_shape import SequenceShape
from fedscan.models.sessa_names import from_authors, to_authors

WIDTH = 16


def authors_state(heads, seed=0):
    """A state dict as the released layer names it."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64) / math.sqrt(WIDTH)

    names = {"W_in": 2 * WIDTH, "mixer.q_proj": WIDTH, "mixer.k_proj": WIDTH,
             "mixer.v_proj": WIDTH, "mixer.proj_fb": 2 * WIDTH, "W_out": WIDTH}  # fmt: skip
    state = {"ln.weight": 1 + draw(WIDTH), "ln.bias": draw(WIDTH)}
    for name, rows in names.items():
        state |= {f"{name}.weight": draw(rows, WIDTH), f"{name}.bias": draw(rows)}
    if heads > 1:
        state["mixer.out_proj.weight"] = draw(WIDTH, WIDTH)
    state |= {"mixer.gamma_ctx.weight": draw(1, WIDTH), "mixer.gamma_bias": torch.ones(1).double()}
    return state | {"mixer.rope_inv_freq": draw(WIDTH // heads // 2)}


def turned(x):
    """Neighbouring coordinates turned, (heads, length, width)."""
    _, length, width = x.shape
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    even, odd = x[..., ::2], x[..., 1::2]
    pairs = (even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos())
    return torch.stack(pairs, dim=-1).flatten(-2)


def authors_block(state, heads, x):
    """Section 3 of the paper in the released code's form, one sequence, token by token."""

    def apply(name, u):
        return F.linear(u, state[f"{name}.weight"], state.get(f"{name}.bias"))

    a, g = apply("W_in", F.layer_norm(x, (WIDTH,), state["ln.weight"], state["ln.bias"])).chunk(
        2, -1
    )
    a = F.gelu(a)

    def split(u):
        return u.unflatten(-1, (heads, -1)).transpose(0, 1)

    q, k = (turned(split(apply(f"mixer.{n}_proj", a))) for n in "qk")
    v = split(apply("mixer.v_proj", a))
    length = len(x)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / math.sqrt(WIDTH / heads)).masked_fill(later, -torch.inf)
    f = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
    if heads > 1:
        f = apply("mixer.out_proj", f)
    qb, kb = apply("mixer.proj_fb", a).chunk(2, -1)
    gains = 0.999 * torch.tanh(apply("mixer.gamma_ctx", a)[:, 0] + state["mixer.gamma_bias"])
    s = [f[0]]
    for t in range(1, length):
        weights = (kb[:t] @ qb[t] / math.sqrt(WIDTH)).softmax(0)
        s.append(f[t] + gains[t] * weights @ torch.stack(s))
    return x + apply("W_out", torch.stack(s) * g)


def shape(heads):
    return SequenceShape("sessa", 5, WIDTH, 1, heads, heads, "authors", 0.999, 8, 8, False)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_loaded_weights_compute_what_theirs_do(heads):
    state = authors_state(heads)
    block = Block(shape(heads)).double()
    block.load_state_dict(from_authors(state, heads))
    x = torch.randn(11, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    found = block(x[None])[0]
    torch.testing.assert_close(found, authors_block(state, heads, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("heads", [1, 2])
def test_there_and_back(heads):
    block = initialise(shape(heads), 0).blocks[0]
    params = {name: t.detach() for name, t in block.named_parameters()}
    again = from_authors(to_authors(params, heads), heads)
    assert set(again) == set(params)
    for name, tensor in params.items():
        assert torch.equal(again[name], tensor), name
    moved = to_authors(params, heads)
    assert not torch.equal(moved["mixer.q_proj.weight"], params["layer.q_proj.weight"])


def test_other_state_dicts_are_refused():
    state = authors_state(2)
    with pytest.raises(ValueError, match="'mixer.mlp.weight' is no tensor of a Sessa block"):
        from_authors({**state, "mixer.mlp.weight": torch.zeros(1)}, 2)
    with pytest.raises(ValueError, match="no 'mixer.out_proj' in the state dict of 2"):
        from_authors(authors_state(1), 2)
    with pytest.raises(ValueError, match="width 16 do not divide into 3 heads"):
        from_authors(state, 3)
