"""Lemmas .1 to .3 and the certificate: the lemmas' own conclusions, and a second derivation."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fedscan.theory.consensus import Constants
from fedscan.theory.consensus_certificate import (
    certificate,
    chained_radii,
    decay_of_sequence,
    slack_radius,
)
from fedscan.theory.excitation import Excitation

FOUND = Constants(0.7, 0.9, 4.0, 1.2, 1.4)


def test_slack_radius_by_hand():
    assert slack_radius(0.1, 0.5, 2.0, 4.0) == pytest.approx(0.01 / (8 * 16 * 4))
    assert slack_radius(100.0, 0.9, 2.0, 4.0) == pytest.approx(0.1)
    assert slack_radius(0.1, 0.9, 2.0, 0.0) == pytest.approx(0.1)  # one token: nothing couples


@pytest.mark.parametrize("seed", range(20))
def test_lemma_1_each_radius_outweighs_all_earlier_ones(seed):
    """What the radii are for: with every earlier V_j at M_j d_j, token i stays below both bounds.

    V_i <= theta d_i + H sum sqrt(2 M_j d_j) after a window must be below d_i, and
    r d_i + H sum sqrt(2 M_j d_j) within one below R d_i.
    """
    rng = np.random.default_rng(seed)
    theta, r, coupling = rng.uniform(0.05, 0.95), rng.uniform(1, 5), rng.uniform(0.1, 20)
    R, factors = 2 * r, rng.uniform(1, 8, 5).tolist()
    mu = min(1 - theta, R - r)
    radii = chained_radii(10.0 ** rng.uniform(-20, -1), factors, coupling, mu)
    assert len(radii) == 5
    for i in range(1, 5):
        driven = coupling * sum(math.sqrt(2 * factors[j] * radii[j]) for j in range(i))
        assert theta * radii[i] + driven < radii[i]
        assert r * radii[i] + driven < R * radii[i]
        assert radii[i] > radii[i - 1]
        # As the lemma has it: half of the radius for the chain, half for the coupling.
        assert radii[i] == pytest.approx(2 * radii[i - 1] + 2 / mu * driven)


@pytest.mark.parametrize("seed", range(20))
def test_lemma_2_bounds_the_worst_sequence(seed):
    rng = np.random.default_rng(seed)
    theta, window, nu, d = rng.uniform(0.01, 0.99), rng.uniform(0.5, 5), rng.uniform(0.01, 4), 0.3
    rate, factor = decay_of_sequence(theta, window, nu)
    assert 0 < rate < min(-math.log(theta) / window, nu)
    assert factor >= 1
    y, worst = d, 0.0
    for k in range(1, 400):
        y = theta * y + (1 - theta) * d * math.exp(-nu * (k - 1) * window)
        bound = factor * d * math.exp(-rate * k * window)
        assert y <= bound * (1 + 1e-12)
        worst = max(worst, y / bound)
    assert worst > 0.05  # a bound that is not merely huge


@pytest.mark.parametrize("kappa", [0.3, 2.0])
@pytest.mark.parametrize(
    "error", [lambda t: math.exp(-0.2 * t), lambda t: 1 / (1 + t), lambda t: 1 / math.log(3 + t)]
)
def test_lemma_3_what_vanishes_does_not_keep_b_from_one(kappa, error):
    """The worst case b' = kappa (1 - b) - e(t), e -> 0; 1 - b follows e / kappa to 0."""
    flow = solve_ivp(lambda t, b: kappa * (1 - b) - 0.2 * error(t), (0, 400), [0.1],
                     rtol=1e-9, atol=1e-12, t_eval=[50, 400], method="LSODA")  # fmt: skip
    early, late = 1 - flow.y[0]
    assert late < early
    assert late < 1.1 * 0.2 * error(400 - 5 / kappa) / kappa + 1e-9


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("weakest_sign", [-1, 1])
def test_theorem_iv_1_by_a_second_derivation(seed, weakest_sign):
    rng = np.random.default_rng(seed)
    rho, T, c = rng.uniform(0.05, 0.5), int(rng.integers(1, 3)), 0.5
    weakest = weakest_sign * rng.uniform(0, 0.5)
    norm, epsilon, tokens = rng.uniform(0.5, 2), rho / 2, 3
    made = certificate(FOUND, Excitation(c, T, rho, weakest), norm, tokens, epsilon)
    # Sizes of one window, by hand.
    theta, eta0 = math.exp(-(rho - epsilon) * T), min(0, weakest)
    r = math.exp(-(min(epsilon, weakest) - epsilon) * T)
    M = 4 * norm * FOUND.lambda_max
    assert made.rates[0] == rho
    assert made.factors[0] == pytest.approx(math.exp((rho - eta0) * T))
    for i in range(1, tokens):
        nu = min(made.rates[:i]) / 2
        rate = min((rho - epsilon) / 2, nu / 2)
        C = (1 - theta) / (math.exp(-rate * T) - theta)
        assert made.rates[i] == pytest.approx(rate)
        assert made.factors[i] == pytest.approx(max(1, math.exp(rate * T) * (C * r + 1 - theta)))
        driven = sum(math.sqrt(2 * m * d) for m, d in zip(made.factors[:i], made.radii))
        mu = min(1 - theta, r)
        wanted = 2 * made.radii[i - 1] + 2 * T * M * r / mu * driven
        assert made.radii[i] == pytest.approx(wanted)
    near = min(1 - c, epsilon**2 / (8 * FOUND.lambda_sum**2 * norm**2))
    assert made.radii[0] < (1 - c) * math.exp(eta0 * T)
    assert max(made.radii) < near / (2 * r)
    # The first halving that is enough: twice the first radius is too much.
    more = chained_radii(2 * made.radii[0], made.factors, T * M * r, min(1 - theta, r))
    limit = min(near / (2 * r), (1 - c) * math.exp(eta0 * T))
    assert max(more) >= near / (2 * r) or 2 * made.radii[0] >= limit


def test_rates_fall_fourfold_and_radii_square_from_token_to_token():
    made = certificate(FOUND, Excitation(0.5, 1, 0.4, 0.4), 1.0, 3, 0.2)
    assert made.rates == pytest.approx((0.4, 0.1, 0.025))
    orders = [math.log10(radius) for radius in made.radii]
    # Of ours for l = 3: about 1e-28, 1e-13, 1e-4 to 1e-5.
    assert -34 < orders[0] < -24
    assert -18 < orders[1] < -10
    assert -8 < orders[2] < -3
    assert orders[0] == pytest.approx(2 * orders[1], rel=0.25)


def test_one_token_needs_no_other_and_many_have_no_radius_in_float64():
    made = certificate(FOUND, Excitation(0.5, 1, 0.4, 0.4), 1.0, 1, 0.2)
    assert len(made.radii) == 1
    assert made.rates == (0.4,)
    assert certificate(FOUND, Excitation(0.5, 1, 0.4, 0.4), 1.0, 12, 0.2) is None
