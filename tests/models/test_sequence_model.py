"""The compared models: counts against built ones, matched sizes, initial values, causality."""

import pytest
import torch

from fedscan.models.sequence_model import LAYERS, initialise
from fedscan.models.sequence_shape import (
    KINDS,
    SequenceShape,
    is_whole,
    matched,
    parameters,
)

SHAPE = SequenceShape("sessa", 29, 32, 2, 2, 2, "authors", 0.999, 16, 16, False)


def block(mixer, d_model, heads, d_state=16, headdim=16, form="authors"):
    one = SequenceShape(mixer, 1, d_model, 1, heads, heads, form, 0.999, d_state, headdim, True)
    # One block: less the last norm and an embedding of one token.
    return parameters(one) - 2 * d_model - d_model


@pytest.mark.parametrize("mixer", KINDS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("form", ["authors", "paper"])
def test_counts_are_those_of_built_models(mixer, tied, form):
    shape = SHAPE._replace(mixer=mixer, tied_head=tied, form=form)
    model = initialise(shape, 0)
    assert sum(p.numel() for p in model.parameters()) == parameters(shape)
    assert set(KINDS) == set(LAYERS)


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        # The specification's table.
        (9_569, ("sessa", 32, 2)),
        (148_865, ("sessa", 128, 4)),
        (2_364_929, ("sessa", 512, 8)),
        (8_545, ("sessa", 32, 1)),
        (132_481, ("sessa", 128, 1)),
        (7_424, ("mha", 32, 2)),
        (115_712, ("sessa_no_feedback", 128, 4)),
        (1_839_104, ("mha", 512, 8)),
        (1_576_960, ("mha", 512, 1)),
        (11_084, ("mamba2", 32, 2, 16, 16)),
        (168_752, ("mamba2", 128, 4, 64, 16)),
        (2_442_416, ("mamba2", 512, 8, 64, 64)),
    ],
)
def test_counts_of_a_block(count, arguments):
    assert block(*arguments) == count
    if arguments[0] == "sessa" and arguments[2] == 1:
        width = arguments[1]
        assert block(*arguments, form="paper") == 8 * width**2 + 6 * width + 1


def test_stories_at_paper_scale_match():
    large = SequenceShape("sessa", 4096, 512, 6, 8, 8, "authors", 0.999, 64, 64, True)
    assert parameters(large) == 16_287_750
    mha = matched(large._replace(mixer="mha"), 0.03)
    assert (mha.d_model, parameters(mha)) == (576, 16_322_688)
    assert parameters(matched(large._replace(mixer="sessa_no_feedback"), 0.03)) == 13_132_800


@pytest.mark.parametrize("mixer", KINDS)
def test_a_match_is_the_closest_total(mixer):
    shape = SHAPE._replace(mixer=mixer, headdim=8)
    found, target = matched(shape, 0.03), parameters(SHAPE._replace(headdim=8))
    if not KINDS[mixer].matched:
        assert found == shape
        return
    assert abs(parameters(found) - target) <= 0.03 * target
    assert is_whole(found)
    states = range(8, 33, 8) if KINDS[mixer].has_state else [16]
    others = (
        shape._replace(d_model=width, d_state=state) for width in range(2, 96) for state in states
    )
    gaps = [abs(parameters(one) - target) for one in others if is_whole(one)]
    assert abs(parameters(found) - target) == min(gaps)


def test_no_match_names_the_nearest():
    with pytest.raises(ValueError, match=r"no mha has within 0.0001 .* 21,058 .*d_model 36: "):
        matched(SHAPE._replace(mixer="mha"), 0.0001)


def test_initial_values():
    own, tied = initialise(SHAPE, 1), initialise(SHAPE._replace(tied_head=True), 1)
    assert float(own.embedding.weight.detach().std()) == pytest.approx(1, rel=0.1)
    assert float(tied.embedding.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert tied.head.weight is tied.embedding.weight
    assert torch.equal(initialise(SHAPE, 1).head.weight, own.head.weight)
    assert not torch.equal(initialise(SHAPE, 2).head.weight, own.head.weight)


def test_drawing_leaves_torchs_own_stream_alone():
    torch.manual_seed(3)
    first = torch.rand(1)
    torch.manual_seed(3)
    initialise(SHAPE, 0)
    assert torch.equal(torch.rand(1), first)


@pytest.mark.parametrize("mixer", KINDS)
def test_later_tokens_change_no_earlier_one_and_all_parameters_learn(mixer):
    model = initialise(SHAPE._replace(mixer=mixer), 0).double()
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(29, (2, 70), generator=g)
    changed = ids.clone()
    changed[:, 40:] = torch.randint(29, (2, 30), generator=g)
    before, after = model(ids), model(changed)
    torch.testing.assert_close(after[:, :40], before[:, :40], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 40:], before[:, 40:])
    model.logits(before).square().sum().backward()
    for name, value in model.named_parameters():
        # Loops that are off have no parameters; a mixer's D of zero slope would show here.
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name
