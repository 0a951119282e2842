"""Lemmas .1-.3 and the certificate of Theorem IV.1, by hand and by simulation."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fedscan.experiments.consensus.instances import AXIS, instance
from fedscan.experiments.consensus.theory_rows import certificate_violations
from fedscan.theory.consensus import Constants
from fedscan.theory.consensus_certificate import (
    certificate,
    chained_radii,
    decay_of_sequence,
    slack_radius,
)
from fedscan.theory.excitation import Excitation, excitation

FOUND = Constants(0.7, 0.9, 4.0, 1.2, 1.4)


def certified(kind="definite", tokens=3, index=0):
    one = instance(0, kind, 0.3, index, 5, 6, tokens)
    excited = excitation(one.kernels, AXIS, one.constants)
    norm = max(float(np.linalg.norm(k, 2)) for k in one.kernels)
    return one, excited, certificate(one.constants, excited, norm, tokens, excited.rho / 2)


def test_radii_by_hand():
    radii = chained_radii(0.01, [2.0, 3.0, 1.0], coupling=0.5, contraction=0.25)
    second = 2 * 0.01 + 4 * math.sqrt(2 * 2 * 0.01)
    third = 2 * second + 4 * (math.sqrt(2 * 2 * 0.01) + math.sqrt(2 * 3 * second))
    np.testing.assert_allclose(radii, [0.01, second, third])


def test_each_radius_outweighs_what_drives_it():
    # What Lemma .1 wants: from V_i < d_i, one window leads to at most theta V + drive < d_i.
    one, excited, made = certified(tokens=4)
    theta = math.exp(-excited.rho / 2 * excited.window)
    overshoot = math.exp(-(min(excited.rho / 2, excited.weakest) - excited.rho / 2))
    norm = max(float(np.linalg.norm(k, 2)) for k in one.kernels)
    coupling = excited.window * 4 * norm * one.constants.lambda_max * overshoot
    for i in range(1, 4):
        drive = coupling * sum(
            math.sqrt(2 * m * d) for m, d in zip(made.factors[:i], made.radii[:i], strict=True)
        )
        assert theta * made.radii[i] + drive < made.radii[i]
        assert overshoot * made.radii[i] + drive < 2 * overshoot * made.radii[i]


def test_a_driven_sequence_decays_at_its_rate():
    # Lemma .2 with equality in every step, the worst case.
    stream = np.random.default_rng(0)
    for _ in range(50):
        theta, window, nu = (
            stream.uniform(0.1, 0.95),
            stream.uniform(0.5, 3),
            stream.uniform(0.01, 2),
        )
        rate, factor = decay_of_sequence(theta, window, nu)
        assert factor >= 1
        y, d = 1.0, 1.0
        for k in range(1, 200):
            y = theta * y + (1 - theta) * d * math.exp(-nu * (k - 1) * window)
            assert y <= factor * d * math.exp(-rate * k * window) * (1 + 1e-12)


def test_a_rate_that_is_too_fast_is_not_kept():
    # The bound says something: at four times the rate the worst case breaks it.
    theta, window, nu = 0.5, 1.0, 0.2
    rate, factor = decay_of_sequence(theta, window, nu)
    y, broken = 1.0, False
    for k in range(1, 100):
        y = theta * y + (1 - theta) * math.exp(-nu * (k - 1) * window)
        broken |= y > factor * math.exp(-4 * rate * k * window)
    assert broken


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


def test_slack_radius():
    assert slack_radius(0.1, 0.5, 2.0, 0.0) == 0.5  # one token: no coupling
    assert slack_radius(0.1, 0.5, 2.0, 3.0) == pytest.approx(0.01 / (8 * 36))


@pytest.mark.parametrize("kind", ["isotropic", "definite", "alternating"])
def test_from_inside_the_radii_all_signs_stay_below_the_bound(kind):
    one, _, made = certified(kind)
    assert all(0 < a < b for a, b in zip(made.radii, made.radii[1:], strict=False))
    assert all(a > b for a, b in zip(made.rates, made.rates[1:], strict=False))
    assert certificate_violations(one, made) == 0


def test_a_certificate_that_promises_too_much_is_found_out():
    one, _, made = certified()
    faster = made._replace(rates=tuple(20 * rate for rate in made.rates), factors=(1.0, 1.0, 1.0))
    assert certificate_violations(one, faster) == 8


def test_one_token_alone():
    one, excited, made = certified(tokens=1)
    assert len(made.radii) == 1
    assert made.rates[0] == excited.rho
    assert certificate_violations(one, made) == 0
    assert made.radii[0] < 1 - excited.c


def test_rates_fall_and_radii_shrink_with_every_token():
    _, _, made = certified(tokens=4)
    for slow, fast in zip(made.rates[1:], made.rates, strict=False):
        assert slow <= fast / 4 * (1 + 1e-12)
    assert made.radii[0] < 1e-20


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
        driven = sum(
            math.sqrt(2 * m * d) for m, d in zip(made.factors[:i], made.radii[:i], strict=True)
        )
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


def test_many_tokens_have_no_radius_that_float64_tells_from_zero():
    assert certificate(FOUND, Excitation(0.5, 1, 0.4, 0.4), 1.0, 12, 0.2) is None
