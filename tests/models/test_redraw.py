"""Redrawn layers: their laws, and that one generator state gives one layer."""

import math

import pytest
import torch

from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.mamba2 import A_RANGE, DT_MAX, DT_MIN
from fedscan.models.redraw import LAWS, redrawn_analysed, redrawn_mixer

SHAPE = Architecture(
    mixers=layout(4), d_model=64, d_state=16, d_conv=4, expand=2, headdim=16, ngroups=2,
    attention_heads=2, vocab_size=60, pad_vocab_size_multiple=4, chunk_size=8,
)  # fmt: skip


def mixer(law, seed=0, dtype=torch.float64):
    return redrawn_mixer(SHAPE, law, torch.Generator().manual_seed(seed), dtype)


@pytest.mark.parametrize("law", LAWS)
def test_one_generator_state_gives_one_layer(law):
    first, again, other = mixer(law), mixer(law), mixer(law, seed=1)
    for name, value in first._asdict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(again, name))
    assert not torch.equal(first.out, other.out)


def test_mamba_ssms_law_is_that_of_a_new_model():
    found = mixer("mamba_ssm")
    block = initialise(SHAPE, 0).backbone.layers[0]
    for name, ours, theirs in (
        ("in_proj", torch.cat([found.gate, found.selective]), block.mixer.in_proj.weight),
        ("out_proj", found.out, block.mixer.out_proj.weight),
        ("conv", found.conv_weight, block.mixer.conv1d.weight),
        ("bias", found.conv_bias, block.mixer.conv1d.bias),
    ):
        assert ours.shape == theirs.shape, name
        for statistic in (torch.std, lambda x: x.abs().max()):
            a, b = float(statistic(ours)), float(statistic(theirs.detach().double()))
            assert a == pytest.approx(b, rel=0.15), name
    assert torch.equal(found.norm, block.norm.weight.detach().double())
    assert torch.equal(found.skip, block.mixer.D.detach().double())


def test_the_gaussian_law_has_the_fan_ins_variance():
    found = mixer("gaussian")
    for weight in (found.gate, found.selective, found.out):
        std = 1 / math.sqrt(weight.shape[1])
        assert float(weight.std()) == pytest.approx(std, rel=0.05)
        assert float(weight.abs().max()) > 3 * std


def test_the_analysed_layers_law():
    found = redrawn_analysed(200, 50, torch.Generator().manual_seed(0), torch.float64)
    std = 1 / math.sqrt(3 * 200)
    for weight in (found.S_B, found.S_C, found.W_delta):
        assert float(weight.std()) == pytest.approx(std, rel=0.05)
    steps = torch.nn.functional.softplus(found.b_delta)
    for values, low, high in ((steps, DT_MIN, DT_MAX), (found.alpha, *A_RANGE)):
        assert low * 0.999 <= float(values.min()) < 1.4 * low
        assert 0.8 * high < float(values.max()) <= high * 1.001
    # Log-uniform: its median is the geometric middle.
    assert float(steps.median()) == pytest.approx(math.sqrt(DT_MIN * DT_MAX), rel=0.5)
