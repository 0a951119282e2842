"""Lemmas .1-.3 and the certificate of Theorem IV.1, by hand and by simulation."""

import math

import numpy as np
import pytest

from fedscan.experiments.consensus.instances import AXIS, instance
from fedscan.experiments.consensus.theory_rows import certificate_violations
from fedscan.theory.consensus_certificate import (
    certificate,
    chained_radii,
    decay_of_sequence,
    slack_radius,
)
from fedscan.theory.excitation import excitation


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


def test_a_vanishing_error_does_not_stop_convergence():
    # Lemma .3: db/dt >= kappa (1 - b) - e(t), e -> 0.
    b, step = 0.2, 0.01
    for k in range(20000):
        error = 0.3 / (1 + k * step)
        b = min(1.0, b + step * (0.5 * (1 - b) - error))
    assert 1 - b < 0.01


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
