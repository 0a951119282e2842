"""The integrator against torch, scipy and closed forms; the theorems along whole paths."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from fedscan.experiments.consensus.flow import REACHED, Path, integrate, outcome, speed
from fedscan.experiments.consensus.instances import AXIS, KERNELS, instance, starts
from fedscan.experiments.consensus.theory_rows import (
    TRIED,
    Asked,
    certificate_violations,
    linear_rate,
    simulated,
    simulated_radius,
)
from fedscan.models.analysed_ssm import AnalysedLayer, field, own_interaction
from fedscan.theory.consensus import c_eff, c_star, smallest_definite
from fedscan.theory.consensus_certificate import certificate
from fedscan.theory.excitation import excitation
from tests.theory.test_thresholds import COUNTER, as_layer, at_height, counterexample


def drawn(kernel, n=5, tokens=4, index=0, amount=0.3):
    return instance(0, kernel, amount, index, n, n + 1, tokens)


def near_pole(V, n, signs, seed=0):
    """Tokens with 1 - |z^a| = V in random directions, (starts, tokens, n)."""
    V, signs = np.asarray(V, float), np.asarray(signs, float)
    z = np.random.default_rng(seed).standard_normal((*signs.shape, n))
    z[..., AXIS] = 0
    z *= np.sqrt(V * (2 - V))[..., None] / np.linalg.norm(z, axis=-1, keepdims=True)
    z[..., AXIS] = signs * (1 - V)
    return z


def all_signs(tokens):
    return 1 - 2.0 * ((np.arange(2**tokens)[:, None] >> np.arange(tokens)) & 1)


@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_speed_is_the_field_of_the_analysed_layer(kernel, silu):
    one = drawn(kernel)
    z = starts(0, 0, 7, 4, 5)
    for layer in one.layers():
        wanted = field(torch.from_numpy(z), layer, silu).numpy()
        np.testing.assert_allclose(speed(z, layer, silu), wanted, rtol=0, atol=1e-13)


def test_the_speed_does_not_overflow_under_strong_decay():
    parts = [torch.randn(s, dtype=torch.float64) for s in ((5, 5), (5,), (6, 5), (6, 5))]
    layer = AnalysedLayer(torch.full((5,), 1e5, dtype=torch.float64), *parts)
    z = starts(0, 0, 3, 12, 5)
    wanted = field(torch.from_numpy(z), layer, False).numpy()
    np.testing.assert_allclose(speed(z, layer, False), wanted, atol=1e-12)


@pytest.mark.parametrize("silu", [False, True])
def test_a_path_is_that_of_an_adaptive_solver(silu):
    one, step = drawn("alternating"), 0.05
    z = starts(0, 1, 2, 4, 5)
    path = integrate(z, one.layers(), silu, 4.0, step)
    for index in range(2):
        state = z[index].ravel()
        for unit in range(4):
            layer = one.layers()[unit % 2]

            def moved(_, flat, layer=layer):
                tokens = torch.from_numpy(flat.reshape(1, 4, 5))
                return field(tokens, layer, silu).numpy().ravel()

            state = solve_ivp(moved, (0, 1), state, rtol=1e-11, atol=1e-12).y[:, -1]
        np.testing.assert_allclose(path.end[index], state.reshape(4, 5), atol=1e-5)


def test_the_error_falls_with_the_fourth_power_of_the_step():
    one, z = drawn("definite"), starts(0, 0, 4, 4, 5)
    fine = integrate(z, one.layers(), False, 2.0, 0.0025).end
    coarse, half = (
        np.abs(integrate(z, one.layers(), False, 2.0, step).end - fine).max()
        for step in (0.1, 0.05)
    )
    assert 12 < coarse / half < 20


def test_what_a_path_records_is_of_its_tokens():
    one, z = drawn("alternating"), starts(0, 0, 3, 4, 5)
    path = integrate(z, one.layers(), True, 2.0, 0.25)
    assert path.distance.shape == (9, 3, 4)
    assert path.q.shape == (8, 3, 4)
    assert path.quadratic.shape == (8, 3)
    np.testing.assert_allclose(path.times, 0.25 * np.arange(9))
    np.testing.assert_allclose(path.distance[0], 1 - np.abs(z[..., AXIS]), atol=1e-15)
    np.testing.assert_allclose(path.distance[-1], 1 - np.abs(path.end[..., AXIS]), atol=1e-15)
    for step, layer in ((0, 0), (3, 0), (4, 1), (7, 1)):
        x = z if step == 0 else integrate(z, one.layers(), True, 0.25 * step, 0.25).end
        q = own_interaction(torch.from_numpy(x), one.layers()[layer], True).numpy()
        np.testing.assert_allclose(path.q[step], q, atol=1e-13)
        form = np.einsum("si,ij,sj->s", x[:, 0], one.kernels[layer], x[:, 0])
        np.testing.assert_allclose(path.quadratic[step], form, atol=1e-13)


def test_a_start_does_not_depend_on_the_others_beside_it():
    one, z = drawn("definite"), starts(0, 0, 8, 4, 5)
    together = integrate(z, one.layers(), True, 2.0, 0.05)
    alone = integrate(z[3:4], one.layers(), True, 2.0, 0.05)
    assert np.array_equal(together.end[3], alone.end[0])
    assert np.array_equal(starts(0, 0, 3, 4, 5), z[:3])


def test_distances_near_the_axis_keep_their_digits():
    for V in (1e-28, 1e-13, 1e-4):
        z = near_pole([[V]], 5, [[1.0]])
        path = integrate(z, drawn("isotropic", tokens=1).layers(), False, 0.0, 1.0)
        assert path.distance[0, 0, 0] == pytest.approx(V, rel=1e-9)


def test_the_first_token_alone_follows_a_closed_form():
    """K = g I, two channels, no W_Delta: z^2 / z^1 decays at g (lambda^1 - lambda^2)."""
    b = np.array([1.0, -0.4])
    layer = as_layer(np.zeros(2), np.zeros((2, 2)), b, 0.7 * np.eye(2))
    z = np.array([[[0.2, math.sqrt(1 - 0.04)]]])
    path = integrate(z, [layer], False, 6.0, 0.02)
    gap = 0.7 * float(np.subtract(*np.logaddexp(0, b)))
    slope = z[0, 0, 1] / z[0, 0, 0] * math.exp(-gap * 6.0)
    assert path.end[0, 0, 1] / path.end[0, 0, 0] == pytest.approx(slope, rel=1e-6)


# Outcomes.


def made_path(V, z=None):
    V = np.asarray(V, float)
    nothing = np.zeros((len(V) - 1, V.shape[1], V.shape[2]))
    return Path(np.arange(len(V)) * 0.1, V, nothing, nothing[..., 0], np.zeros((*V.shape[1:], 2)))


def test_outcomes_by_hand():
    t = np.arange(201) * 0.1
    reaching, staying = 0.5 * np.exp(-1.0 * t), np.full(201, 0.4)
    shrinking = 0.5 * np.exp(-0.1 * t)
    V = np.stack([np.stack([x, x / 2], axis=-1) for x in (reaching, staying, shrinking)], axis=1)
    found = outcome(made_path(V))
    assert found.reached.tolist() == [True, False, False]
    assert found.shrinking.tolist() == [False, False, True]
    late = t >= 16
    wanted = 1 - np.stack([x[late].min() for x in (reaching, staying, shrinking)])
    np.testing.assert_allclose(found.late_supremum[:, 0], wanted)
    np.testing.assert_allclose(found.late_supremum[:, 1], 1 - (1 - wanted) / 2)
    assert found.rate == pytest.approx(1.0, rel=1e-9)


def test_a_rate_is_fitted_above_rounding_alone():
    t = np.arange(601) * 0.1
    rounding = 1e-16 * (1 + np.random.default_rng(0).random(601))
    V = (0.5 * np.exp(-1.3 * t) + rounding)[:, None, None]
    assert outcome(made_path(V)).rate == pytest.approx(1.3, rel=1e-3)
    assert math.isnan(outcome(made_path(np.full((601, 1, 1), 0.3))).rate)


def test_what_is_not_finite_is_neither_reached_nor_nearer():
    V = np.full((201, 1, 2), np.nan)
    found = outcome(made_path(V))
    assert not found.reached.any()
    assert not found.shrinking.any()
    assert math.isnan(found.rate)


@pytest.mark.parametrize("index", range(3))
def test_measured_rates_lie_between_the_linearised_ones_of_the_channels(index):
    one = drawn("definite", index=index)
    path = integrate(starts(0, index, 8, 4, 5), one.layers(), False, 30.0, 0.05)
    found = outcome(path)
    assert found.reached.all()
    slowest = linear_rate(one, np.sign(path.end[..., AXIS]), found.reached)
    # Channels' rates differ by some percent, and the fit sees a mixture of them.
    assert 0.98 * slowest < found.rate < 1.25 * slowest


# Theorems along paths.


@pytest.mark.parametrize("kernel", ["isotropic", "definite"])
@pytest.mark.parametrize("index", range(3))
def test_lemma_v_1_bounds_the_first_token_from_any_start(kernel, index):
    one = drawn(kernel, index=index, amount=1.0)
    z = starts(0, index, 32, 4, 5)
    z[0, 0, AXIS] = 0
    z[0, 0] /= np.linalg.norm(z[0, 0])
    path = integrate(z, one.layers(), False, 10.0, 0.05)
    assert path.end[0, 0, AXIS] == 0  # the equator is invariant
    assert (np.sign(path.end[1:, 0, AXIS]) == np.sign(z[1:, 0, AXIS])).all()
    V = path.distance[:, 1:, 0]
    b, alpha = 1 - V[0], smallest_definite(one.kernels)
    bound = V[0] * np.exp(-alpha * one.constants.gamma * b * (1 + b) * path.times[:, None])
    assert (bound * (1 + 1e-6) + 1e-14 >= V).all()
    # It says something: at three times the rate it fails.
    faster = V[0] * np.exp(-3 * alpha * one.constants.gamma * b * (1 + b) * path.times[:, None])
    assert (faster < V).any()


@pytest.mark.parametrize("index", range(3))
def test_lemma_iv_2_bounds_the_first_token_under_layers_of_both_signs(index):
    one = drawn("alternating", index=index)
    found = excitation(one.kernels, AXIS, one.constants)
    assert found.weakest < 0 < found.rho
    eta, T = min(0.0, found.weakest), found.window
    largest = (1 - found.c) * math.exp(eta * T)
    V = np.geomspace(1e-10, 0.999 * largest, 16)
    z = near_pole(V[:, None], 5, np.where(np.arange(16) % 2, 1.0, -1.0)[:, None], seed=index)
    path = integrate(z, one.layers(), False, 20.0, 0.02)
    factor = math.exp((found.rho - eta) * T)
    bound = factor * V * np.exp(-found.rho * path.times[:, None])
    assert (path.distance[..., 0] <= bound * (1 + 1e-6) + 1e-15).all()
    # The negative layer shows: V grows over it.
    assert (path.distance[100, :, 0] > path.distance[50, :, 0]).any()


@pytest.mark.parametrize("kernel", ["isotropic", "definite", "alternating"])
@pytest.mark.parametrize("tokens", [2, 3])
def test_theorem_iv_1_bounds_all_tokens_of_all_signs_inside_the_radii(kernel, tokens):
    one = drawn(kernel, tokens=tokens)
    found = excitation(one.kernels, AXIS, one.constants)
    norm = max(float(np.linalg.norm(k, 2)) for k in one.kernels)
    made = certificate(one.constants, found, norm, tokens, found.rho / 2)
    signs = all_signs(tokens)
    V = 0.999 * np.array(made.radii)
    for seed in range(3):
        z = near_pole(np.broadcast_to(V, signs.shape), 5, signs, seed)
        path = integrate(z, one.layers(), False, 10.0, 0.02)
        bound = (
            np.array(made.factors)
            * made.radii
            * np.exp(-np.array(made.rates) * path.times[:, None, None])
        )
        assert (path.distance <= bound * (1 + 1e-6)).all()
    assert certificate_violations(one, made) == 0


def test_a_certificate_that_promises_too_much_is_counted():
    one = drawn("alternating", tokens=2)
    found = excitation(one.kernels, AXIS, one.constants)
    made = certificate(one.constants, found, 2.0, 2, found.rho / 2)
    assert certificate_violations(one, made) == 0
    faster = made._replace(rates=tuple(50 * rate for rate in made.rates))
    assert certificate_violations(one, faster) == 4
    # Beyond what is proved, where the negative layer comes first to act: V grows.
    tight = made._replace(factors=(0.4, 0.4))
    assert certificate_violations(one, tight) == 4


def asked(kernel, tokens=3):
    return Asked(0, kernel, 0.3, 0, False, 5, 6, tokens, 4, 4, 10.0, 0.05)


def test_the_simulated_radius_is_the_largest_tried_that_all_signs_are_drawn_from():
    # Isotropic: wherever tokens start, so the largest tried, which no certificate comes near.
    one = drawn("isotropic", tokens=3)
    assert simulated_radius(one, asked("isotropic")) == max(TRIED)
    # A negative kernel draws nothing.
    (kernel,) = one.kernels
    away = one._replace(maps=tuple((S_B, -S_C) for S_B, S_C in one.maps), kernels=(-kernel,))
    assert simulated_radius(away, asked("isotropic")) == 0
    # One token and K = diag(1, -1, ...), all gaps equal: a start is drawn where z^T K z > 0, which
    # on the cap of V means (1 - V)^2 > 1 / 2.
    S_B, kernel = np.eye(5), np.diag([1.0, -1, -1, -1, -1])
    split = one._replace(maps=((S_B, kernel),), kernels=(kernel,), tokens=1,
                         W_delta=np.zeros((5, 5)), b_delta=np.array([1.0, -0.4, -0.4, -0.4, -0.4]),
                         alpha=np.zeros(5))  # fmt: skip
    wanted = max(V for V in TRIED if (1 - V) ** 2 > 0.5)
    assert simulated_radius(split, asked("isotropic", 1)) == wanted < max(TRIED)


def test_lemma_3_compares_a_later_token_with_its_driven_equation():
    """The last token of a path: b' >= kappa (1 - b) - e(t) with Proposition IV.1 (2)'s e."""
    one = drawn("isotropic", tokens=3)
    found, gain = one.constants, one.kernels[0][0, 0]
    norm, c, epsilon = gain, 0.5, 0.05
    z = near_pole([[1e-9, 1e-9, 1e-6]], 5, [[1.0, -1.0, 1.0]])
    path = integrate(z, one.layers(), False, 20.0, 0.01)
    V = path.distance[:, 0]
    kappa = gain * found.gamma * c * (1 + c) - epsilon
    error = 4 * norm * found.lambda_max * np.sqrt(2 * V[:, :2]).sum(-1)
    # 1 - b <= e^(-kappa t) (1 - b(0)) + integral of e^(-kappa (t - s)) e(s).
    weight = np.exp(kappa * path.times)
    driven = np.concatenate([[0], np.cumsum((weight * error)[:-1] * 0.01)])
    assert (V[:, 2] <= (V[0, 2] + driven) / weight * (1 + 1e-9) + 1e-15).all()
    assert V[-1, 2] < 1e-12


@pytest.mark.parametrize("index", range(4))
def test_theorem_v_1_isotropic_kernels_bring_every_start_together(index):
    one = drawn("isotropic", index=index)
    path = integrate(starts(0, index, 32, 4, 5), one.layers(), False, 60.0, 0.05)
    found = outcome(path)
    assert found.reached.all()
    row = simulated(one, path, one.constants, 0.0, False)
    assert (row["reached"], row["above_threshold"], row["violations_theorem"]) == (32, 32, 0)


@pytest.mark.parametrize("amount", [0.3, 1.0, 3.0])
def test_theorem_v_1_what_stays_above_the_threshold_reaches_consensus(amount):
    for index in range(2):
        one = drawn("definite", index=index, amount=amount)
        threshold = c_eff(c_star(one.kernels, AXIS), one.constants, 4)
        path = integrate(starts(0, index, 16, 4, 5), one.layers(), False, 40.0, 0.05)
        row = simulated(one, path, one.constants, threshold, False)
        assert row["violations_theorem"] == 0
        assert row["above_threshold"] + row["undecided"] > 0


def equilibrium():
    parts = counterexample(0.0)
    one = drawn("definite", n=3)._replace(
        alpha=parts[0], W_delta=parts[1], b_delta=parts[2], kernels=(COUNTER,),
        maps=((np.eye(3), COUNTER.T.copy()),),
    )  # fmt: skip
    return one, at_height(0.6).numpy()


def test_the_counterexample_is_a_violation_of_the_printed_threshold_alone():
    """The negative control: the flag fires for 0.2425 and not for 0.7276."""
    one, z = equilibrium()
    path = integrate(z, one.layers(), False, 4.0, 0.05)
    assert np.abs(path.distance[:, 0, 3] - 0.4).max() < 1e-6
    printed = simulated(one, path, one.constants, 0.2425, False)
    assert printed["above_threshold"] == 1
    assert printed["reached"] == 0
    assert (printed["violations_theorem"], printed["undecided"]) == (1, 0)
    corrected = simulated(one, path, one.constants, 0.7276, False)
    assert (corrected["above_threshold"], corrected["violations_theorem"]) == (0, 0)


def test_the_counterexample_is_unstable_and_random_starts_do_not_find_it():
    one, z = equilibrium()
    moved = z.copy()
    moved[0, 3, 0] += 1e-6
    moved /= np.linalg.norm(moved, axis=-1, keepdims=True)
    path = integrate(moved, one.layers(), False, 30.0, 0.05)
    assert path.distance[-1].max() < REACHED
    found = outcome(integrate(starts(0, 0, 16, 4, 3), one.layers(), False, 40.0, 0.05))
    assert found.reached.all()


@pytest.mark.parametrize("silu", [False, True])
def test_consensus_on_every_axis_rests_and_earlier_tokens_do_not_see_later_ones(silu):
    one = drawn("indefinite")
    for axis in range(5):
        z = np.zeros((16, 4, 5))
        z[..., axis] = all_signs(4)
        path = integrate(z, one.layers(), silu, 1.0, 0.05)
        np.testing.assert_allclose(path.end, z, atol=1e-9)
    z = starts(0, 0, 4, 4, 5)
    other = z.copy()
    other[:, 2] = starts(0, 5, 4, 4, 5)[:, 2]
    ends = [integrate(x, one.layers(), silu, 2.0, 0.05).end for x in (z, other)]
    np.testing.assert_array_equal(ends[0][:, :2], ends[1][:, :2])
    assert not np.allclose(ends[0][:, 2:], ends[1][:, 2:])


def test_one_tokens_sign_flips_its_own_path_alone_without_step_weights():
    one = drawn("definite")
    one = one._replace(W_delta=np.zeros((5, 5)))
    z = starts(0, 0, 4, 4, 5)
    flipped = z.copy()
    flipped[:, 1] *= -1
    ends = [integrate(x, one.layers(), False, 3.0, 0.05).end for x in (z, flipped)]
    ends[1][:, 1] *= -1
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12)
