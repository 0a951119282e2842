"""Permutations that leave the model's function alone, and FedAlign undoing them."""

import pytest
import torch
from torch.func import functional_call

from fedscan.federated.algorithm import LocalContext, LocalResult
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.models.architecture import Architecture, layout
from fedscan.models.backbones import BACKBONES
from fedscan.models.initialise import initialise
from fedscan.models.symmetries import permutation_groups
from fedscan.params.algebra import add, subtract
from fedscan.params.permutation import features, permute

SHAPE = Architecture(layout(4), 32, 16, 4, 2, 16, 1, 4, 61, 8, 16)


def build(shape):
    model = initialise(shape, 0).double()
    # The ones of D and the norms would hide a wrong order.
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += 0.1 * torch.randn(tensor.shape, generator=g, dtype=torch.float64)
    return model, {name: t.detach().clone() for name, t in model.named_parameters()}


def shuffled(params, groups, seed=0):
    g = torch.Generator().manual_seed(seed)
    orders = []
    for group in groups:
        orders.append(torch.randperm(group.size, generator=g).tolist())
        params = permute(params, group, orders[-1])
    return params, orders


@pytest.mark.parametrize("kind", ["state", "heads"])
@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        SHAPE._replace(mixers=layout(16)),
        SHAPE._replace(ngroups=2),
        SHAPE._replace(mixers=BACKBONES["hybrid50"](4)),
        SHAPE._replace(mixers=BACKBONES["hybrid25"](16)),
    ],
    ids=["depth 4", "depth 16", "two groups", "hybrid", "deep hybrid"],
)
def test_a_permuted_model_computes_the_same_function(shape, kind):
    model, params = build(shape)
    groups = permutation_groups(shape)[kind]
    changed, orders = shuffled(params, groups)
    assert any(order != sorted(order) for order in orders)
    assert any(not torch.equal(changed[name], params[name]) for name in params)
    ids = torch.randint(0, 61, (2, 40), generator=torch.Generator().manual_seed(2))
    before = functional_call(model, params, (ids,))
    after = functional_call(model, changed, (ids,))
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)


def test_permuting_features_of_one_tensor_alone_changes_the_function():
    model, params = build(SHAPE)
    group = permutation_groups(SHAPE)["state"][0]
    half = group._replace(slots=group.slots[:3])
    changed, _ = shuffled(params, [half])
    ids = torch.randint(0, 61, (2, 40), generator=torch.Generator().manual_seed(2))
    before = functional_call(model, params, (ids,))
    assert (functional_call(model, changed, (ids,)) - before).abs().max() > 1e-3


def test_every_coupled_entry_is_covered_once():
    # All entries that are indexed by state or head belong to exactly one feature.
    params = build(SHAPE._replace(ngroups=2))[1]
    groups = permutation_groups(SHAPE._replace(ngroups=2))
    marks = {name: torch.zeros_like(t) for name, t in params.items()}
    for group in [*groups["state"], *groups["heads"]]:
        for slot in group.slots:
            marks[slot.name].narrow(slot.axis, slot.start, group.size * slot.width).add_(1)
    for name, mark in marks.items():
        covered = any(
            part in name
            for part in ("in_proj", "conv1d", "A_log", "mixer.D", "dt_bias", "out_proj")
        )
        expected = 1 if covered or ".mixer.norm." in name else 0
        assert bool((mark == expected).all()), name


def test_permute_by_hand():
    params = build(SHAPE)[1]
    group = permutation_groups(SHAPE)["state"][1]
    order = [1, 0, *range(2, 16)]
    changed = permute(params, group, order)
    assert torch.equal(features(changed, group), features(params, group)[order])
    name = "backbone.layers.1.mixer.in_proj.weight"
    # rows [z 64 | x 64 | B 16 | C 16 | dt 4]
    assert torch.equal(changed[name][128], params[name][129])
    assert torch.equal(changed[name][145], params[name][144])
    assert torch.equal(changed[name][:128], params[name][:128])
    assert torch.equal(params[name], build(SHAPE)[1][name])
    with pytest.raises(ValueError, match="layer 1 state features 0: .* is not a permutation of 16"):
        permute(params, group, [0] * 16)


@pytest.mark.parametrize("heads", [0, 1])
def test_fedalign_undoes_a_permutation(heads):
    _, reference = build(SHAPE)
    groups = permutation_groups(SHAPE)
    g = torch.Generator().manual_seed(5)
    noise = {n: torch.randn(t.shape, generator=g, dtype=t.dtype) for n, t in reference.items()}
    local = add(reference, noise, 1e-3)
    kinds = [*groups["state"], *(groups["heads"] if heads else ())]
    disguised, orders = shuffled(local, kinds)
    algorithm = ALGORITHMS["fedalign"](align_mamba2_heads=heads, permutation_groups=groups)
    result = LocalResult(disguised, subtract(disguised, reference), None)
    message, _ = algorithm.client_message(result, LocalContext(reference, {}, {}, 1, 1, 0.1))
    recovered = add(reference, message["update"])
    for name in local:
        torch.testing.assert_close(recovered[name], local[name], rtol=0, atol=1e-15)
    moved = sum(new != old for order in orders for new, old in enumerate(order))
    assert float(message["moved_features"]["count"]) == moved


def test_fedalign_leaves_a_matching_client_alone():
    _, reference = build(SHAPE)
    groups = permutation_groups(SHAPE)
    algorithm = ALGORITHMS["fedalign"](align_mamba2_heads=1, permutation_groups=groups)
    local = {n: t + 1e-3 * t.sin() for n, t in reference.items()}
    result = LocalResult(local, subtract(local, reference), None)
    message, _ = algorithm.client_message(result, LocalContext(reference, {}, {}, 1, 1, 0.1))
    assert message["update"] is result.update


def test_attention_only_models_have_no_groups():
    shape = SHAPE._replace(mixers=layout(SHAPE.depth, (0, 1, 2, 3)))
    assert permutation_groups(shape) == {"state": (), "heads": ()}
