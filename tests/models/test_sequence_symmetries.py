"""Reorderings of Sessa's and the compared layers' features change no output."""

import pytest
import torch
from torch.func import functional_call

from fedscan.models.architecture import Architecture
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise as language_model
from fedscan.models.sequence_model import initialise
from fedscan.models.sequence_shape import KINDS, SequenceShape
from fedscan.models.sequence_symmetries import permutation_groups
from fedscan.models.symmetries import permutation_groups as backbone_groups
from fedscan.params.permutation import permute

SHAPE = SequenceShape("sessa", 23, 16, 2, 2, 2, "authors", 0.9, 8, 8, False)


def moved(model, seed=1):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += 0.1 * torch.randn(tensor.shape, generator=g, dtype=torch.float64)
    return {name: t.detach().clone() for name, t in model.named_parameters()}


def shuffled(params, groups):
    g = torch.Generator().manual_seed(2)
    for group in groups:
        order = torch.randperm(group.size, generator=g).tolist()
        if group.size > 1 and order == sorted(order):
            order = order[::-1]
        params = permute(params, group, order)
    return params


@pytest.mark.parametrize("mixer", KINDS)
@pytest.mark.parametrize(("heads", "form"), [(2, "authors"), (1, "paper")])
def test_every_kind_of_group_is_a_symmetry(mixer, heads, form):
    shape = SHAPE._replace(mixer=mixer, heads=heads, forward_heads=heads, form=form)
    model = initialise(shape, 0).double()
    params, ids = moved(model), torch.arange(23).repeat(2, 1)
    before = functional_call(model, params, (ids,))
    groups = permutation_groups(shape)
    assert {"state", "heads"} <= set(groups)
    for kind, found in groups.items():
        changed = shuffled(params, found)
        if found:
            assert any(not torch.equal(changed[name], params[name]) for name in params), kind
        after = functional_call(model, changed, (ids,))
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-7, msg=kind)


def test_half_a_group_is_no_symmetry():
    model = initialise(SHAPE, 0).double()
    params, ids = moved(model), torch.arange(23).repeat(2, 1)
    before = functional_call(model, params, (ids,))
    for kind in ("state", "heads", "gate", "inner"):
        group = permutation_groups(SHAPE)[kind][0]
        half = group._replace(slots=group.slots[: len(group.slots) // 2])
        after = functional_call(model, shuffled(params, [half]), (ids,))
        assert (after - before).abs().max() > 1e-4, kind


@pytest.mark.parametrize("backbone", ["sessa", "sessa_no_feedback", "hybrid50sessa"])
@pytest.mark.parametrize("kind", ["state", "heads", "gate", "inner"])
def test_groups_of_a_language_model(backbone, kind):
    shape = Architecture(BACKBONES[backbone](4), 32, 16, 4, 2, 16, 1, 4, 61, 8, 16)
    model = language_model(shape, 0).double()
    params, groups = moved(model), backbone_groups(shape)
    if kind == "state" and backbone == "sessa_no_feedback":
        assert groups[kind] == ()
        return
    ids = torch.randint(0, 61, (2, 40), generator=torch.Generator().manual_seed(2))
    before = functional_call(model, params, (ids,))
    changed = shuffled(params, groups[kind])
    assert any(not torch.equal(changed[name], params[name]) for name in params)
    after = functional_call(model, changed, (ids,))
    torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-7)
