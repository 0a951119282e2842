"""What a claim is, what the constructed layers are, and claims that do not apply."""

import json

import numpy as np
import pytest
import torch

from fedscan.experiments.sessa import (
    claims_fixed,
    claims_jacobian,
    claims_retrieval,
    constructed,
)
from fedscan.experiments.sessa.claim import at_most, equal, tends_to
from fedscan.experiments.sessa.claims_jacobian import LENGTH
from fedscan.experiments.sessa.constructed import (
    identity_block,
    positional_writer,
    random_layer,
    retrieval_scores,
    retrieval_stack,
)
from fedscan.seeds import generator
from fedscan.theory import envelopes
from fedscan.theory.retrieval import selective_kernel

GAINS = (0.3, 0.6, 0.9)


def broken(claims):
    return {claim.claim for claim in claims if claim.violated}


def test_a_claim_knows_when_it_does_not_hold():
    assert not at_most("a", "b", 1.0, 1.0).violated
    assert at_most("a", "b", 1.001, 1.0).violated
    assert at_most("a", "b", float("nan"), 1.0).violated
    unclaimed = at_most("a", "b", 5.0, None, x=1)
    assert (unclaimed.applicable, unclaimed.violated) == (False, False)
    assert equal("a", "b", [1, 2], [1, 2.1], 0.05).violated
    assert not equal("a", "b", [1, 2], [1, 2.01], 0.05).violated
    assert equal("a", "b", [1, 2], [1, 2], 0.0).row()["ratio"] == 0
    assert at_most("a", "b", 1.0, 0.0).row()["ratio"] == np.inf
    # What is below a bound of 0 keeps to it.
    assert at_most("a", "b", -1.0, 0.0).row()["ratio"] == 0
    assert tends_to("a", "b", 0.98, 1, 0.03).row()["kind"] == "limit"
    assert tends_to("a", "b", 0.98, 1, 0.01).violated


def test_what_does_not_apply_is_recorded_beside_what_does():
    found = [*claims_fixed.claims(0, (0, 0.5, 2), GAINS), *claims_jacobian.claims(0, (0.3,))]
    for name in ("decay", "loop_jacobian"):
        applies = {claim.applicable for claim in found if claim.claim == name}
        assert applies == {True, False}, name
    assert not any(claim.violated for claim in found)


def test_a_block_bound_without_a_factor_is_caught():
    layer = random_layer(8, 1, generator(0, "test"))
    x = torch.zeros(1, 1, 8, dtype=torch.float64)
    # The bound is for the ball: at its centre the biases alone are left.
    assert float((x + layer(x)).norm()) <= claims_fixed.block_bound(layer, 0.0)
    layer.out_proj.weight.mul_(100)
    before = claims_fixed.block_bound(layer, 1.0)
    layer.out_proj.weight.div_(100)
    assert claims_fixed.block_bound(layer, 1.0) < before


def test_paths_are_powers():
    B = np.tril(np.random.default_rng(0).normal(size=(7, 7)), -1)
    for hops in (1, 2, 3, 4):
        wanted = np.linalg.matrix_power(B, hops)
        np.testing.assert_allclose(claims_fixed._paths(B, hops), wanted, atol=1e-12)


def test_an_unfocused_construction_is_no_kernel(monkeypatch):
    monkeypatch.setattr(constructed, "FOCUS", 1e-5)
    found = broken(claims_retrieval.weights(0.5, 1))
    assert "weights_are_kernels" in found


@pytest.mark.parametrize(("beta", "layers"), [(0.5, 1), (0.5, 3), (0.25, 2), (2 / 3, 3)])
def test_layers_score_as_kernels(beta, layers):
    wanted = selective_kernel(beta, layers, 5, 12, 0.02)
    found = retrieval_scores(retrieval_stack(beta, layers, 5, 18, 0.02 / 13), beta, 18)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    # Linear in the signal: another one has the same slopes.
    other = retrieval_scores(retrieval_stack(beta, layers, 5, 18, 0.02 / 13), beta, 18, seed=5)
    np.testing.assert_allclose(other, found, atol=1e-9)


def test_constants_that_do_not_apply_are_recorded():
    constants = envelopes.LoopConstants(0.9, 1.2, 1, 1, 1, 1, 1, 1)
    layer, x = random_layer(4, 1, generator(0, "x")), torch.zeros(LENGTH, 4, dtype=torch.float64)
    sizes = np.ones((LENGTH, LENGTH))
    rows = list(claims_jacobian._bounded(sizes, constants, layer, x, {}))
    assert [row.applicable for row in rows] == [False, False]


def test_a_block_without_norm_adds():
    layer = positional_writer(4, 1, 0.5, 2.0)
    x = torch.ones(1, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(identity_block(layer, x), x + layer(x))


@pytest.mark.parametrize(
    ("beta", "layers"), [(0.5, 1), (0.5, 2), (2 / 3, 3), (0.25, 2), (0.5, 3), (0.8, 4), (0.95, 2)]
)
def test_every_profile_holds_at_all_horizons(beta, layers):
    found = list(claims_retrieval.profile(beta, layers))
    assert broken(found) == set()
    horizons = [json.loads(c.instance)["horizon"] for c in found if c.claim == "margins_positive"]
    assert horizons == [100, 400, 900]
