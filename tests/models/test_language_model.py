"""The language model: counts, names, initial values, and Hugging Face's Mamba2 as oracle."""

import importlib.util

import pytest
import torch
import torch.nn.functional as F

from fedscan.models.architecture import Architecture, layout
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.models.language_model import LanguageModel

PAPER = Architecture(layout(4), 256, 128, 4, 2, 64, 1, 8, 50277, 8, 64)
TINY = Architecture(layout(2), 32, 16, 4, 2, 16, 1, 4, 61, 8, 16)


def count(shape):
    with torch.device("meta"):
        model = LanguageModel(shape)
    parameters = dict(model.named_parameters())
    mixer = sum(p.numel() for name, p in parameters.items() if ".mixer." in name)
    return sum(p.numel() for p in parameters.values()), mixer, len(parameters)


def test_parameter_counts_of_both_depths():
    # Paper, Table 9.
    assert count(PAPER) == (14_733_664, 1_860_704, 38)
    assert count(PAPER._replace(mixers=layout(16)))[:2] == (20_318_848, 7_442_816)


@pytest.mark.parametrize(
    ("backbone", "layers", "total"),
    [
        ("mamba2", (), 14_733_664),
        ("hybrid75", (2,), 14_531_656),
        ("hybrid50", (1, 3), 14_329_648),
        ("hybrid50alt", (0, 2), 14_329_648),
        ("hybrid25", (0, 2, 3), 14_127_640),
        ("attn0", (0, 1, 2, 3), 13_925_632),
    ],
)
def test_backbones(backbone, layers, total):
    # Paper, Table 10.
    assert BACKBONES[backbone](4) == layout(4, layers)
    assert count(PAPER._replace(mixers=layout(PAPER.depth, layers)))[0] == total


def test_state_dict_names_and_shapes_are_mamba_ssms():
    with torch.device("meta"):
        model = LanguageModel(PAPER._replace(mixers=layout(PAPER.depth, (2,))))
    shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    layer = "backbone.layers.0."
    expected = {
        "backbone.embedding.weight": (50280, 256),
        f"{layer}norm.weight": (256,),
        f"{layer}mixer.dt_bias": (8,),
        f"{layer}mixer.A_log": (8,),
        f"{layer}mixer.D": (8,),
        f"{layer}mixer.in_proj.weight": (1288, 256),
        f"{layer}mixer.conv1d.weight": (768, 1, 4),
        f"{layer}mixer.conv1d.bias": (768,),
        f"{layer}mixer.norm.weight": (512,),
        f"{layer}mixer.out_proj.weight": (256, 512),
        "backbone.layers.2.mixer.in_proj.weight": (768, 256),
        "backbone.layers.2.mixer.in_proj.bias": (768,),
        "backbone.layers.2.mixer.out_proj.weight": (256, 256),
        "backbone.layers.2.mixer.out_proj.bias": (256,),
        "backbone.norm_f.weight": (256,),
        "lm_head.weight": (50280, 256),
    }
    assert {name: shapes[name] for name in expected} == expected
    assert len(shapes) == 2 + 3 * 9 + 5 + 1


def replay_mamba_ssm_constructors(shape, seed):
    """Build the parameters in mamba_ssm's order with the global generator and torch's layers.

    Order of draws: embedding; per layer in_proj, conv1d, dt, A, out_proj; ``_init_weights`` over
    the backbone; lm_head; ``_init_weights`` over the whole model; tie.
    """
    torch.manual_seed(seed)
    inner = shape.expand * shape.d_model
    heads, channels = inner // shape.headdim, inner + 2 * shape.ngroups * shape.d_state
    values, outs = {}, []
    embedding = torch.nn.Embedding(shape.padded_vocab_size, shape.d_model)
    for i in range(shape.depth):
        prefix = f"backbone.layers.{i}.mixer."
        if i in shape.attention_layers:
            in_proj = torch.nn.Linear(shape.d_model, 3 * shape.d_model)
            out_proj = torch.nn.Linear(shape.d_model, shape.d_model)
            torch.nn.init.zeros_(in_proj.bias)
            torch.nn.init.zeros_(out_proj.bias)
            values[f"{prefix}in_proj.bias"] = in_proj.bias
            values[f"{prefix}out_proj.bias"] = out_proj.bias
        else:
            in_proj = torch.nn.Linear(shape.d_model, inner + channels + heads, bias=False)
            conv = torch.nn.Conv1d(channels, channels, shape.d_conv, groups=channels)
            dt = torch.exp(
                torch.rand(heads)
                * (torch.log(torch.tensor(0.1, dtype=torch.float64)).item() - -6.907755278982137)
                + -6.907755278982137
            ).clamp(min=1e-4)
            values[f"{prefix}dt_bias"] = dt + torch.log(-torch.expm1(-dt))
            values[f"{prefix}A_log"] = torch.log(torch.empty(heads).uniform_(1, 16))
            values[f"{prefix}conv1d.weight"] = conv.weight
            values[f"{prefix}conv1d.bias"] = conv.bias
            out_proj = torch.nn.Linear(inner, shape.d_model, bias=False)
        values[f"{prefix}in_proj.weight"] = in_proj.weight
        values[f"{prefix}out_proj.weight"] = out_proj.weight
        outs.append(out_proj)

    def init_weights():
        torch.nn.init.normal_(embedding.weight, std=0.02)
        for out in outs:
            torch.nn.init.kaiming_uniform_(out.weight, a=5**0.5)
            with torch.no_grad():
                out.weight /= shape.depth**0.5

    init_weights()
    torch.nn.Linear(shape.d_model, shape.padded_vocab_size, bias=False)
    init_weights()
    values["backbone.embedding.weight"] = embedding.weight
    return values


@pytest.mark.parametrize("attention", [(), (1,)])
def test_initial_values_follow_mamba_ssms_order_of_draws(attention):
    shape = TINY._replace(mixers=layout(TINY.depth, attention))
    expected = replay_mamba_ssm_constructors(shape, 1234)
    before = torch.get_rng_state()
    found = dict(initialise(shape, 1234).named_parameters())
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in expected.items():
        assert torch.equal(found.pop(name), value), name
    assert all(torch.equal(value, torch.ones_like(value)) for value in found.values())


def test_loss_is_the_cross_entropy_of_shifted_logits():
    model = initialise(TINY, 0).double()
    ids = torch.randint(0, 61, (3, 40), generator=torch.Generator().manual_seed(0))
    logits = model(ids)[:, :-1].flatten(0, 1)
    plain = F.cross_entropy(logits, ids[:, 1:].flatten())
    names, tensors = zip(*model.named_parameters(), strict=True)
    expected = torch.autograd.grad(plain, tensors)
    loss = model.loss(ids)
    torch.testing.assert_close(loss, plain, rtol=1e-12, atol=0)
    found = torch.autograd.grad(loss, tensors)
    for name, one, other in zip(names, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12, msg=name)


def test_padding_at_the_end_changes_nothing_before_it():
    model = initialise(TINY._replace(mixers=layout(TINY.depth, (1,))), 0).double()
    ids = torch.randint(0, 61, (2, 33), generator=torch.Generator().manual_seed(0))
    longer = torch.cat([ids, torch.zeros(2, 7, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(model(longer)[:, :33], model(ids), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("attention", [(), (1,)])
def test_bfloat16_autocast_stays_near_float32(attention):
    model = initialise(TINY._replace(mixers=layout(TINY.depth, attention)), 0)
    ids = torch.randint(0, 61, (4, 64), generator=torch.Generator().manual_seed(0))
    exact = model.loss(ids)
    wanted = torch.autograd.grad(exact, list(model.parameters()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model.loss(ids)
        hidden = model.backbone(ids)
    # bfloat16 keeps 8 bits: the loss of about 4 nats may move by a few hundredths.
    assert abs(rounded.item() - exact.item()) < 0.05
    assert hidden.dtype == torch.float32
    gradients = torch.autograd.grad(rounded, list(model.parameters()))
    for found, expected in zip(gradients, wanted, strict=True):
        assert found.dtype == torch.float32
        # Two layers deep, roundings of 2^-9 each: about one percent.
        assert (found - expected).norm() < 0.05 * expected.norm()


@pytest.mark.skipif(
    importlib.util.find_spec("mamba_ssm") is not None,
    reason="transformers would call mamba_ssm's CUDA kernels on CPU tensors",
)
@pytest.mark.parametrize("length", [1, 63, 100])
def test_logits_and_gradients_equal_transformers(length):
    from transformers import Mamba2Config, Mamba2ForCausalLM

    shape = TINY
    config = Mamba2Config(
        num_heads=4, head_dim=16, vocab_size=64, hidden_size=32, state_size=16,
        num_hidden_layers=2, layer_norm_epsilon=1e-5, expand=2, conv_kernel=4, n_groups=1,
        use_bias=False, use_conv_bias=True, residual_in_fp32=True, chunk_size=16,
        tie_word_embeddings=True, time_step_limit=(0.0, float("inf")), pad_token_id=0,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    oracle = Mamba2ForCausalLM(config)
    model = initialise(shape, 7)
    renamed = {
        name.replace("backbone.embedding.", "backbone.embeddings."): tensor
        for name, tensor in model.state_dict().items()
    }
    oracle.load_state_dict(renamed, strict=True)
    ids = torch.randint(0, 61, (2, length), generator=torch.Generator().manual_seed(1))
    expected, found = oracle(ids).logits, model(ids)
    # float32 in two orders of summation; logits are of order 1.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    theirs = dict(oracle.named_parameters())
    for name, parameter in model.named_parameters():
        other = theirs[name.replace("backbone.embedding.", "backbone.embeddings.")].grad
        if not other.any():  # one position has no decay: A has no gradient
            assert length == 1
            assert not parameter.grad.any()
            continue
        difference = float((parameter.grad - other).norm() / other.norm())
        assert difference < 1e-4, (name, difference)
