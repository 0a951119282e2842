"""Constants of the consensus theorems: attained suprema, the counterexample, exact anisotropy."""

import math

import numpy as np
import pytest
import torch

from fedscan.experiments.consensus.instances import AXIS, anisotropic, instance, step_parts
from fedscan.models.analysed_ssm import AnalysedLayer, field, step_sizes, transfer
from fedscan.theory.consensus import (
    Transfers,
    c_eff,
    c_eff_printed,
    c_star,
    constants,
    sector_rate,
    smallest_definite,
    step_size_range,
    transfer_range,
    weight,
)

TOKENS, N = 4, 5


def parts(seed=0):
    return step_parts(N, np.random.default_rng(seed))


def layer(alpha, W, b):
    nothing = torch.zeros(1, len(alpha), dtype=torch.float64)
    return AnalysedLayer(*map(torch.from_numpy, (alpha, W, b)), nothing, nothing)


def sphere(count, tokens, n, seed=0):
    z = np.random.default_rng(seed).standard_normal((count, tokens, n))
    return torch.from_numpy(z / np.linalg.norm(z, axis=-1, keepdims=True))


def test_step_sizes_stay_in_their_range_and_reach_its_ends():
    alpha, W, b = parts()
    low, high = step_size_range(W, b)
    found = step_sizes(sphere(500, TOKENS, N), layer(alpha, W, b)).numpy()
    assert (found >= low - 1e-14).all()
    assert (found <= high + 1e-14).all()
    for mu in range(N):
        direction = torch.from_numpy(W[mu] / np.linalg.norm(W[mu]))
        ends = torch.stack([direction, -direction])[None]
        top, bottom = step_sizes(ends, layer(alpha, W, b))[0, :, mu]
        assert float(top) == pytest.approx(high[mu], rel=1e-14)
        assert float(bottom) == pytest.approx(low[mu], rel=1e-14)


def test_transfers_stay_in_their_range_and_reach_its_ends():
    alpha, W, b = parts()
    found = transfer_range(alpha, W, b, TOKENS)
    sampled = transfer(sphere(500, TOKENS, N), layer(alpha, W, b)).numpy()
    assert (sampled >= found.low - 1e-14).all()
    assert (sampled <= found.high + 1e-14).all()
    for mu in range(N):
        direction = W[mu] / np.linalg.norm(W[mu])
        # The source token pulls one way, all later ones the other.
        for sign, ends in ((1, found.high), (-1, found.low)):
            tokens = np.stack([sign * direction] + [-sign * direction] * (TOKENS - 1))
            reached = transfer(torch.from_numpy(tokens)[None], layer(alpha, W, b))[0, :, 0, mu]
            np.testing.assert_allclose(reached.numpy(), ends[:, 0, mu], rtol=1e-13)


def test_constants_by_hand():
    low = np.zeros((2, 2, 2))
    high = np.zeros((2, 2, 2))
    low[..., 0], high[..., 0] = [[1.0, 0], [0.8, 1.1]], [[1.2, 0], [0.9, 1.3]]
    low[..., 1], high[..., 1] = [[0.3, 0], [0.1, 0.2]], [[0.4, 0], [0.5, 0.6]]
    found = constants([Transfers(low, high)], 0)
    # Gaps over each pair (i, j), not across pairs: 1 - 0.4, 0.8 - 0.5, 1.1 - 0.6.
    assert found.gamma == pytest.approx(0.3)
    assert found.gamma_upper == pytest.approx(1.3 - 0.2)
    assert found.lambda_sum == pytest.approx(0.9)
    assert (found.lambda_min, found.lambda_max) == (0.8, 1.3)


def test_constants_hold_for_sampled_transfers():
    alpha, W, b = parts()
    found = constants([transfer_range(alpha, W, b, TOKENS)], AXIS)
    sampled = transfer(sphere(500, TOKENS, N), layer(alpha, W, b)).numpy()
    pairs = np.tril_indices(TOKENS)
    own = sampled[:, pairs[0], pairs[1], AXIS]
    others = np.delete(sampled[:, pairs[0], pairs[1]], AXIS, axis=-1)
    gaps = own[..., None] - others
    assert found.gamma <= gaps.min()
    assert gaps.max() <= found.gamma_upper
    assert found.lambda_min <= own.min()
    assert own.max() <= found.lambda_max
    assert np.tril(sampled[..., AXIS], -1).sum(-1).max() <= found.lambda_sum


def test_one_token_has_no_threshold_and_no_sum():
    alpha, W, b = parts()
    found = constants([transfer_range(alpha, W, b, 1)], AXIS)
    assert found.lambda_sum == 0
    assert c_eff(2.0, found, 1) == 0
    assert c_eff_printed(2.0, found, 1) > 1  # what is printed leaves [0, 1)


def test_a_weight_counts_negative_values_more():
    alpha, W, b = parts()
    found = constants([transfer_range(alpha, W, b, TOKENS)], AXIS)
    low, zero, high = weight(np.array([-1.0, 0.0, 1.0]), 0.5, found)
    assert high == pytest.approx(0.75 * found.gamma)
    assert zero == 0
    assert low == pytest.approx(-2 * (found.gamma_upper + found.lambda_sum))


@pytest.mark.parametrize("amount", [0.0, 0.3, 1.0, 3.0])
def test_definite_kernels_have_exactly_their_anisotropy(amount):
    for seed in range(5):
        kernel = anisotropic(N, amount, np.random.default_rng(seed))
        assert smallest_definite([kernel]) == pytest.approx(1, abs=1e-13)
        assert c_star([kernel], AXIS) == pytest.approx(amount, abs=1e-13)


def test_isotropic_kernels_have_no_threshold():
    one = instance(0, "isotropic", 0.0, 0, N, 6, TOKENS)
    assert c_star(one.kernels, AXIS) == 0
    assert c_eff(0.0, one.constants, TOKENS) == 0


def test_kernels_that_are_not_definite_have_no_anisotropy():
    assert c_star([np.diag([1.0, 1.0, -0.1])], 0) is None
    low_rank = np.outer([1.0, 0, 0], [1.0, 0, 0])
    assert c_star([low_rank], 0) is None


def test_the_sector_rate_vanishes_at_the_threshold():
    one = instance(0, "definite", 1.0, 0, N, 6, TOKENS)
    threshold = c_eff(1.0, one.constants, TOKENS)
    assert sector_rate(threshold, 1.0, one.constants, TOKENS - 1) == pytest.approx(0, abs=1e-12)
    assert sector_rate(threshold + 0.01, 1.0, one.constants, TOKENS - 1) > 0


# Section V: the printed threshold lacks a factor l - 1; this is an equilibrium above it.


def turning(k):
    kernel = np.eye(3)
    kernel[1, 0], kernel[0, 1] = k, -k
    return kernel


def counterexample(k=0.8, gamma=0.2, others=3):
    b = k * others / math.hypot(gamma + others, k * others)
    z = np.zeros((others + 1, 3))
    z[:, 0] = 1
    z[-1] = [b, -math.sqrt(1 - b * b), 0]
    return b, z


def with_gap(kernel, steps):
    """alpha = 0, W_Delta = 0: lambda_ij = softplus(b), given."""
    b = torch.from_numpy(np.log(np.expm1(np.array(steps))))
    nothing = torch.zeros(3, dtype=torch.float64)
    maps = torch.eye(3, dtype=torch.float64), torch.from_numpy(kernel.T.copy())
    return AnalysedLayer(nothing, torch.zeros(3, 3, dtype=torch.float64), b, *maps)


def test_the_printed_threshold_has_a_counterexample():
    kernel = turning(0.8)
    b, z = counterexample()
    assert b == pytest.approx(0.6)
    weights = with_gap(kernel, [1.0, 0.8, 0.8])
    assert field(torch.from_numpy(z)[None], weights, silu=False).abs().max() < 1e-14
    ranges = transfer_range(*(t.numpy() for t in weights[:3]), 4)
    found = constants([ranges], 0)
    star = c_star([kernel], 0)
    assert star == pytest.approx(0.8 * math.sqrt(2))
    printed, corrected = (f(star, found, 4) for f in (c_eff_printed, c_eff))
    assert printed == pytest.approx(0.2425, abs=5e-5)
    assert corrected == pytest.approx(0.7276, abs=5e-5)
    # Above the printed threshold it should converge, and it stays; the corrected one is above it.
    assert printed < b < corrected


def test_the_counterexample_persists_where_all_assumptions_hold():
    eta = 0.01
    kernel = turning(0.8)
    stream = np.random.default_rng(0)
    W = stream.standard_normal((3, 3))
    W *= eta / np.linalg.norm(W, axis=1, keepdims=True)
    base = with_gap(kernel, [1.0, 0.8, 0.8])
    alpha = torch.tensor([eta, 2 * eta, 2 * eta], dtype=torch.float64)
    weights = base._replace(alpha=alpha, W_delta=torch.from_numpy(W))
    z = torch.from_numpy(counterexample()[1])[None]
    for _ in range(60):  # Newton on the last token's tangent
        moved = z.clone()
        speed = field(moved, weights, silu=False)[0, -1]
        basis = torch.linalg.svd(z[0, -1][None])[2][1:]
        columns = []
        for direction in basis:
            near = moved.clone()
            near[0, -1] = z[0, -1] + 1e-7 * direction
            near[0, -1] /= near[0, -1].norm()
            columns.append((field(near, weights, silu=False)[0, -1] - speed) / 1e-7)
        slope = basis @ torch.stack(columns).T
        change = torch.linalg.solve(slope, -(basis @ speed))
        z[0, -1] = z[0, -1] + basis.T @ change
        z[0, -1] /= z[0, -1].norm()
    assert field(z, weights, silu=False).abs().max() < 1e-13
    found = constants([transfer_range(alpha.numpy(), W, base.b_delta.numpy(), 4)], 0)
    star = c_star([kernel], 0)
    height = float(z[0, -1, 0])
    # The page's instance drew other W: the equilibrium moves with it, by the order of eta.
    assert height == pytest.approx(0.5992, abs=0.01)
    assert c_eff_printed(star, found, 4) == pytest.approx(0.2475, abs=0.005)
    assert c_eff(star, found, 4) == pytest.approx(0.7426, abs=0.01)
    assert c_eff_printed(star, found, 4) < height < c_eff(star, found, 4)
