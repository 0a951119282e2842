"""The flow of tokens: integrator, outcomes, and the theorems along trajectories."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from fedscan.experiments.consensus.flow import REACHED, Path, integrate, outcome
from fedscan.experiments.consensus.instances import AXIS, instance, starts
from fedscan.models.analysed_ssm import field
from fedscan.theory.consensus import c_eff, c_star
from fedscan.theory.excitation import excitation


def flowing(one, count=4, horizon=6.0, step=0.05, silu=False, seed=0):
    start = torch.from_numpy(starts(seed, 0, count, one.tokens, len(one.alpha)))
    return start, integrate(start, one.layers(), silu, horizon, step)


@pytest.mark.parametrize("silu", [False, True])
def test_the_integrator_against_scipys(silu):
    one = instance(0, "definite", 0.5, 0, 5, 6, 3)
    start, path = flowing(one, count=2, silu=silu, horizon=4.0)
    for index in range(2):

        def speed(_, flat):
            z = torch.from_numpy(flat.reshape(1, 3, 5))
            return field(z, one.layers()[0], silu).numpy().ravel()

        exact = solve_ivp(speed, (0, 4.0), start[index].numpy().ravel(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(path.end[index].ravel(), exact.y[:, -1], atol=1e-6)


def test_the_integrator_is_of_fourth_order():
    one = instance(0, "definite", 0.5, 0, 5, 6, 3)
    ends = [flowing(one, step=step)[1].end for step in (0.2, 0.1, 0.0125)]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:2]]
    assert 10 < errors[0] / errors[1] < 24


def test_layers_take_turns_of_one_unit_of_time():
    one = instance(0, "alternating", 0.0, 0, 5, 6, 3)
    start, path = flowing(one, horizon=2.0)
    half = integrate(start, one.layers()[:1], False, 1.0, 0.05)
    rest = integrate(torch.from_numpy(half.end), one.layers()[1:], False, 1.0, 0.05)
    np.testing.assert_allclose(path.end, rest.end, atol=1e-14)


def test_distances_far_below_rounding_are_told_apart():
    z = np.zeros((1, 2, 3))
    z[0, :, AXIS] = [1, -1]
    z[0, :, 1] = [1e-12, 3e-10]
    one = instance(0, "isotropic", 0.0, 0, 3, 4, 2)
    path = integrate(torch.from_numpy(z), one.layers(), False, 0.05, 0.05)
    np.testing.assert_allclose(path.distance[0, 0], [0.5e-24, 4.5e-20], rtol=1e-6)
    assert (path.distance[1] < path.distance[0]).all()


def made(distance):
    distance = np.asarray(distance, float)[:, None, None]
    return Path(np.arange(len(distance)) * 0.1, distance, distance, distance[..., 0], None)


def test_outcomes_by_hand():
    fast = made(0.5 * np.exp(-1.3 * 0.1 * np.arange(200)))
    found = outcome(fast)
    assert found.reached.tolist() == [True]
    assert found.rate == pytest.approx(1.3, rel=1e-6)
    slow = outcome(made(0.5 * np.exp(-0.1 * 0.1 * np.arange(200))))
    assert (slow.reached.tolist(), slow.shrinking.tolist()) == ([False], [True])
    assert math.isnan(slow.rate)
    stays = outcome(made(np.full(200, 0.4)))
    assert (stays.reached.tolist(), stays.shrinking.tolist()) == ([False], [False])
    assert stays.late_supremum[0, 0] == pytest.approx(0.6)
    assert REACHED == 1e-4


def test_isotropic_kernels_draw_every_start_together():
    # Theorem V.1 with c_eff = 0.
    for index in range(3):
        one = instance(2, "isotropic", 0.0, index, 5, 6, 4)
        _, path = flowing(one, count=12, horizon=60.0, step=0.1, seed=index)
        found = outcome(path)
        assert (found.reached | found.shrinking).all()
        assert found.reached.sum() >= 11


def test_above_the_threshold_tokens_go_on_to_consensus():
    # Theorem V.1, anisotropic: late heights above c_eff lead to the axis.
    one = instance(1, "definite", 1.0, 0, 5, 6, 4)
    threshold = c_eff(c_star(one.kernels, AXIS), one.constants, 4)
    _, path = flowing(one, count=12, horizon=40.0, step=0.1)
    found = outcome(path)
    above = (found.late_supremum > threshold).all(axis=1)
    assert above.any()
    assert (found.reached | found.shrinking)[above].all()


def test_the_counterexample_stays_where_it_is():
    # The negative control of Theorem V.1: above the printed threshold, and no consensus.
    from tests.theory.test_consensus import counterexample, turning, with_gap

    _, z = counterexample()
    layer = with_gap(turning(0.8), [1.0, 0.8, 0.8])
    path = integrate(torch.from_numpy(z)[None], [layer], False, 10.0, 0.05)
    assert path.end[0, -1, 0] == pytest.approx(0.6, abs=1e-9)
    found = outcome(path)
    assert not found.reached.any()
    assert not found.shrinking.any()


def test_the_first_token_keeps_its_sign_and_falls_as_fast_as_is_proved():
    # Lemma V.1 along trajectories: V_1(t) <= V_1(0) exp(-alpha gamma b_1(0) (1 + b_1(0)) t).
    one = instance(0, "definite", 1.0, 0, 5, 6, 3)
    start, path = flowing(one, count=12, horizon=8.0)
    first = path.distance[:, :, 0]
    b = 1 - first[0]
    rate = 1.0 * one.constants.gamma * b * (1 + b)
    bound = first[0] * np.exp(-rate * path.times[:, None])
    assert (first <= bound * (1 + 1e-9)).all()
    assert (np.sign(path.end[:, 0, AXIS]) == np.sign(start[:, 0, AXIS].numpy())).all()


def test_the_equator_is_left_by_none_that_starts_on_it():
    one = instance(0, "definite", 1.0, 0, 5, 6, 1)
    z = starts(0, 0, 4, 1, 5)
    z[..., AXIS] = 0
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    path = integrate(torch.from_numpy(z), one.layers(), False, 6.0, 0.05)
    assert np.abs(path.end[..., AXIS]).max() < 1e-14


def test_excited_layers_in_turn_draw_the_first_token_exponentially():
    # Lemma IV.2, alpha_c of both signs: V_1 <= exp((rho - eta_0) T) exp(-rho t) V_1(0).
    one = instance(0, "alternating", 0.0, 1, 5, 6, 2)
    excited = excitation(one.kernels, AXIS, one.constants)
    eta = min(0.0, excited.weakest)
    assert eta < 0
    stream = np.random.default_rng(0)
    radius = (1 - excited.c) * math.exp(eta * excited.window)
    V = radius * stream.uniform(0.01, 0.99, 8)
    z = stream.standard_normal((8, 2, 5))
    z[..., AXIS] = 0
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    z *= np.sqrt(V * (2 - V))[:, None, None]
    z[..., AXIS] = (1 - V)[:, None] * np.where(stream.random((8, 2)) < 0.5, -1, 1)
    path = integrate(torch.from_numpy(z), one.layers(), False, 12.0, 0.02)
    first = path.distance[:, :, 0]
    head = math.exp((excited.rho - eta) * excited.window)
    bound = head * np.exp(-excited.rho * path.times)[:, None] * first[0]
    assert (first <= bound * (1 + 1e-9)).all()
