"""Every kind of claim holds, and is violated when its statement is broken on purpose."""

import numpy as np
import pytest
import torch

from fedscan.experiments.sessa import (
    claims_depth,
    claims_fixed,
    claims_jacobian,
    claims_positions,
    claims_retrieval,
    constructed,
)
from fedscan.experiments.sessa.claim import at_most, equal
from fedscan.experiments.sessa.constructed import (
    identity_block,
    positional_writer,
    random_layer,
    retrieval_scores,
    retrieval_stack,
)
from fedscan.seeds import generator
from fedscan.theory import envelopes, feedback
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


def test_all_hold():
    found = [
        *claims_fixed.claims(0, (0, 0.5, 2), GAINS),
        *claims_jacobian.claims(0, (0.3,)),
        *claims_depth.claims(0),
        *claims_positions.claims(0, GAINS),
        *claims_retrieval.claims(0, [[0.5, 1], [0.25, 2]]),
    ]
    assert broken(found) == set()
    names = {claim.claim for claim in found}
    assert len(names) >= 55
    assert any(not claim.applicable for claim in found if claim.claim == "decay")
    assert any(claim.applicable for claim in found if claim.claim == "decay")
    assert any(claim.applicable for claim in found if claim.claim == "loop_jacobian")


@pytest.mark.parametrize(
    ("name", "wrong", "caught"),
    [
        ("solution_bound", lambda rho: 1.0, "solution"),
        ("decay_bound", lambda g, c, lags: np.asarray(1e-3 * lags**-1.0), "decay"),
        ("realised_c2", lambda alpha: 1e-3, "decay_realised"),
        ("uniform_kernel", lambda g, s, lags: g * np.ones(np.broadcast(s, lags).shape) / (s + lags),
         "uniform_kernel"),
        ("uniform_two_sided", lambda g, n: feedback.TwoSided(1e3, 1e-3), "uniform_upper"),
        ("uniform_response", lambda g, n: np.linspace(1, 2, n), "uniform_response"),
        ("uniform_exponent", lambda g, s, lags: np.array([-1.0]), "uniform_local_exponent"),
    ],
)  # fmt: skip
def test_fixed_routing_catches(monkeypatch, name, wrong, caught):
    monkeypatch.setattr(feedback, name, wrong)
    assert caught in broken(claims_fixed.claims(0, (0, 0.5), (0.3, 0.6)))


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


@pytest.mark.parametrize(
    ("module", "name", "wrong", "caught"),
    [
        (claims_jacobian, "loop_jacobian_bound",
         lambda c, lags: None if c.eta >= 1 else 1e-4 / lags**1.0, "loop_jacobian"),
        (claims_jacobian, "convolution_constant", lambda beta: 0.5, "convolution"),
    ],
)  # fmt: skip
def test_end_to_end_catches(monkeypatch, module, name, wrong, caught):
    monkeypatch.setattr(module, name, wrong)
    assert caught in broken(module.claims(0, (0.3,)))


def test_a_wrong_solve_breaks_the_jacobian_identity(monkeypatch):
    real = claims_jacobian._slopes
    monkeypatch.setattr(claims_jacobian, "_slopes", lambda layer, x: 1.001 * real(layer, x))
    assert "jacobian_identity" in broken(claims_jacobian.claims(0, (0.3,)))


def test_a_leak_from_later_tokens_is_caught(monkeypatch):
    real = claims_jacobian._slopes
    monkeypatch.setattr(claims_jacobian, "_slopes", lambda layer, x: real(layer, x) + 1e-9)
    assert "causality" in broken(claims_jacobian.claims(0, (0.3,)))


def test_a_product_of_too_few_blocks_is_caught(monkeypatch):
    monkeypatch.setattr(claims_depth, "stack_bound", lambda norms: norms[0])
    found = [claims_depth.calculus(n, k, 0) for n, k in claims_depth.KINDS.items()]
    assert "residual_calculus" in broken(found)


def test_depth_catches(monkeypatch):
    monkeypatch.setattr(claims_depth, "zoh_jacobian_bound", lambda *args: 1e-4)
    monkeypatch.setattr(claims_depth, "power_convolution_limit", lambda beta, hops: 1.0)
    monkeypatch.setattr(claims_depth, "harmonic_power_bound", lambda hops, n: np.full(n, 1e-3))
    assert broken(claims_depth.claims(0)) == {
        "zoh_jacobian", "power_convolution", "harmonic_kernel",
    }  # fmt: skip


def test_positions_catch(monkeypatch):
    monkeypatch.setattr(claims_positions, "scaffold_error_bound", lambda *args: 1e-9)
    monkeypatch.setattr(claims_positions, "NEAR", 1e-9)
    real = positional_writer
    monkeypatch.setattr(
        claims_positions, "positional_writer",
        lambda width, channel, gain, scale: real(width, channel, 0.9 * gain, scale),
    )  # fmt: skip
    found = broken(claims_positions.claims(0, GAINS))
    assert {"scaffold_norm", "positional_writer"} <= found


def test_retrieval_catches(monkeypatch):
    monkeypatch.setattr(claims_retrieval, "profile_exponent", lambda beta, k: 0.3)
    found = broken(claims_retrieval.claims(0, [[0.5, 1]]))
    assert "profile_exponent" in found


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
    layer, x = random_layer(4, 1, generator(0, "x")), torch.zeros(14, 4, dtype=torch.float64)
    sizes = np.ones((14, 14))
    rows = list(claims_jacobian._bounded(sizes, constants, layer, x, {}))
    assert [row.applicable for row in rows] == [False, False]


def test_a_block_without_norm_adds():
    layer = positional_writer(4, 1, 0.5, 2.0)
    x = torch.ones(1, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(identity_block(layer, x), x + layer(x))
