"""Thresholds and constants over families of layers; the counterexample to the digits we state."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import root

from fedscan.experiments.consensus.instances import AXIS, instance
from fedscan.models.analysed_ssm import AnalysedLayer, field, transfer
from fedscan.theory.consensus import (
    Constants,
    c_eff,
    c_eff_printed,
    c_star,
    constants,
    sector_rate,
    smallest_definite,
    transfer_range,
)


def random_parts(seed, n=4):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 0.4, n), 0.3 * rng.standard_normal((n, n)), rng.standard_normal(n)


def as_layer(alpha, W_delta, b_delta, kernel=None):
    kernel = np.eye(len(alpha)) if kernel is None else kernel
    # S_B = I, S_C = K^T: then S_C^T S_B = K.
    return AnalysedLayer(
        *(torch.from_numpy(np.array(v)) for v in (alpha, W_delta, b_delta)),
        torch.eye(len(alpha), dtype=torch.float64),
        torch.from_numpy(kernel.T.copy()),
    )


def sphere(rng, *shape):
    z = rng.standard_normal(shape)
    return torch.from_numpy(z / np.linalg.norm(z, axis=-1, keepdims=True))


@pytest.mark.parametrize("tokens", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_lemma_iii_1_transfers_lie_in_their_range_and_attain_it(seed, tokens):
    alpha, W, b = random_parts(seed)
    layer, (low, high) = as_layer(alpha, W, b), transfer_range(alpha, W, b, tokens)
    found = transfer(sphere(np.random.default_rng(100 + seed), 400, tokens, 4), layer).numpy()
    rounding = 1e-14
    assert (found >= low - rounding).all()
    assert (found <= high + rounding).all()
    # Token j at one end of a channel's step size, all later ones at the other.
    for mu, row in enumerate(W):
        pole = torch.from_numpy(row / np.linalg.norm(row))
        for j in range(tokens):
            for sign, end in ((1, high), (-1, low)):
                z = (-sign * pole).repeat(1, tokens, 1)
                z[0, j] = sign * pole
                column = transfer(z, layer)[0, j:, j, mu].numpy()
                np.testing.assert_allclose(column, end[j:, j, mu], rtol=1e-13)


def test_constants_are_those_of_plain_loops_over_all_layers():
    tokens, n, axis = 3, 4, 1
    family = [transfer_range(*random_parts(seed, n), tokens) for seed in (1, 2)]
    gammas, spans, lows, highs, sums = [], [], [], [], [0.0]
    for low, high in family:
        for i in range(tokens):
            sums.append(sum(high[i, j, axis] for j in range(i)))
            for j in range(i + 1):
                lows.append(low[i, j, axis])
                highs.append(high[i, j, axis])
                for mu in set(range(n)) - {axis}:
                    gammas.append(low[i, j, axis] - high[i, j, mu])
                    spans.append(high[i, j, axis] - low[i, j, mu])
    found = constants(family, axis)
    wanted = Constants(min(gammas), max(spans), max(sums), min(lows), max(highs))
    assert found == pytest.approx(wanted, rel=1e-15)
    assert constants([transfer_range(*random_parts(1), 1)], axis).lambda_sum == 0


@pytest.mark.parametrize("index", range(4))
def test_certified_constants_bound_what_states_show(index):
    one = instance(0, "definite", 0.3, index, 5, 6, 4)
    found, pairs = one.constants, np.tril_indices(4)
    seen = transfer(sphere(np.random.default_rng(index), 500, 4, 5), one.layers()[0]).numpy()
    own, others = seen[..., AXIS], np.delete(seen, AXIS, axis=-1)
    gaps = (own[..., None] - others)[:, pairs[0], pairs[1]]
    assert 0 < found.gamma <= gaps.min()
    assert gaps.max() <= found.gamma_upper
    # Not far off either: the single transfers' ends are attained.
    assert found.gamma > 0.8 * gaps.min()
    assert found.gamma_upper < 1.2 * gaps.max()
    single = own[:, pairs[0], pairs[1]]
    assert found.lambda_min <= single.min() <= single.max() <= found.lambda_max
    assert max(own[:, i, :i].sum(-1).max() for i in range(1, 4)) <= found.lambda_sum


def test_without_a_gap_gamma_is_not_positive():
    # Two channels of one head: the same step size and decay.
    alpha, W, b = np.full(3, 0.1), np.zeros((3, 3)), np.array([1.0, 1.0, -1.0])
    assert constants([transfer_range(alpha, W, b, 3)], 0).gamma <= 0


def test_c_star_takes_the_worst_of_each_over_the_layers():
    narrow, wide = np.diag([1.0, 1.0, 1.5]), np.diag([4.0, 6.0, 4.0])
    assert c_star([narrow, wide], 0) == pytest.approx(2.0 / 1.0)
    assert c_star([narrow, np.diag([1.0, 0.0, 1.0])], 0) is None
    assert c_star([np.diag([1.0, -1.0])], 0) is None
    # A skew part changes no definiteness, but the distance from a multiple of the identity.
    skew = np.array([[0.0, -2.0], [2.0, 0.0]])
    assert c_star([np.eye(2) + skew], 0) == pytest.approx(math.sqrt(8))


@pytest.mark.parametrize("seed", range(20))
def test_above_c_eff_every_token_is_drawn_and_below_it_the_last_is_not(seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.1, 1)
    found = Constants(rng.uniform(0.05, 0.5), 1.0, 1.0, low, low + rng.uniform(0, 1))
    star, tokens = rng.uniform(0.05, 3), int(rng.integers(2, 7))
    threshold = c_eff(star, found, tokens)
    assert 0 < threshold < 1
    assert sector_rate(threshold, star, found, tokens - 1) == pytest.approx(0, abs=1e-12)
    assert sector_rate(threshold - 1e-3, star, found, tokens - 1) < 0
    above = threshold + 1e-3 * (1 - threshold)
    assert all(sector_rate(above, star, found, i) > 0 for i in range(tokens))
    # For two tokens the printed value is the same; for more it is below, and the rate negative.
    printed = c_eff_printed(star, found, tokens)
    if tokens == 2:
        assert printed == pytest.approx(threshold)
    else:
        assert printed < threshold
        assert sector_rate(printed, star, found, tokens - 1) < 0


def test_thresholds_at_their_ends():
    found = Constants(0.2, 1.0, 3.0, 1.0, 1.0)
    assert c_eff(0.0, found, 4) == 0
    assert c_eff(0.8, found, 1) == 0
    assert c_eff_printed(0.8, found, 1) == pytest.approx(4)  # a sine that is above 1
    assert c_eff(1e6, found, 4) < 1


# 6.5 (a): a point that Theorem V.1, as printed, says is left.
COUNTER = np.eye(3) + 0.8 * (np.outer([0, 1, 0], [1, 0, 0]) - np.outer([1, 0, 0], [0, 1, 0]))


def inverse_softplus(value):
    return math.log(math.expm1(value))


def counterexample(eta, seed=0):
    """The parts of the counterexample; eta > 0 makes every norm of Assumption III.1 positive."""
    alpha = eta * np.array([1.0, 2.0, 2.0])
    W = np.random.default_rng(seed).standard_normal((3, 3))
    W *= eta / np.linalg.norm(W, axis=1, keepdims=True)
    b = np.array([inverse_softplus(v) for v in (1.0, 0.8, 0.8)])
    return alpha, W, b


def thresholds(alpha, W, b):
    found = constants([transfer_range(alpha, W, b, 4)], 0)
    star = c_star([COUNTER], 0)
    assert star == pytest.approx(0.8 * math.sqrt(2))
    return found, c_eff_printed(star, found, 4), c_eff(star, found, 4)


def at_height(b):
    z = torch.zeros(1, 4, 3, dtype=torch.float64)
    z[0, :3, 0] = 1
    z[0, 3, :2] = torch.tensor([b, -math.sqrt(1 - b * b)], dtype=torch.float64)
    return z


def test_the_counterexample_stays_above_the_printed_threshold():
    alpha, W, b = counterexample(0.0)
    found, printed, corrected = thresholds(alpha, W, b)
    assert found == pytest.approx(Constants(0.2, 0.2, 3.0, 1.0, 1.0))
    height = 0.8 * 3 / math.hypot(0.2 + 3, 0.8 * 3)
    assert height == pytest.approx(0.6, abs=1e-15)
    assert printed == pytest.approx(0.2425, abs=5e-5)
    assert corrected == pytest.approx(0.7276, abs=5e-5)
    layer = as_layer(alpha, W, b, COUNTER)
    assert field(at_height(height), layer, False).abs().max() < 1e-15
    # It is this height that rests, not any.
    assert field(at_height(0.5), layer, False).abs().max() > 1e-2
    assert printed < height < corrected
    # With the spectral norm in c_star the corrected threshold is this very height: it is sharp.
    spectral = np.linalg.norm(COUNTER - np.eye(3), 2) / smallest_definite([COUNTER])
    assert c_eff(spectral, found, 4) == pytest.approx(height, abs=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_the_counterexample_persists_where_all_norms_are_positive(seed):
    alpha, W, b = counterexample(0.01, seed)
    _, printed, corrected = thresholds(alpha, W, b)
    assert printed == pytest.approx(0.2475, abs=5e-5)
    assert corrected == pytest.approx(0.7426, abs=5e-5)
    layer = as_layer(alpha, W, b, COUNTER)

    def speed(last):
        z = at_height(0.6)
        z[0, 3] = torch.from_numpy(last)
        return field(z, layer, False)[0, 3].numpy() + (last @ last - 1) * last

    found = root(speed, at_height(0.6)[0, 3].numpy(), tol=1e-14)
    assert np.abs(speed(found.x)).max() < 1e-13
    assert abs(found.x[0]) == pytest.approx(0.5992, abs=2e-3)
    assert printed < abs(found.x[0]) < corrected
