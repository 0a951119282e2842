"""The feedback loop's closed forms against inverses, paths and limits."""

import itertools
import math

import numpy as np
import pytest

from fedscan.theory import feedback as fb


def routed(length, spread=2.0, gain=0.9, seed=0):
    stream = np.random.default_rng(seed)
    logits = stream.uniform(0, spread, (length, length))
    return fb.routing(logits, stream.uniform(-gain, gain, length))


def test_the_kernel_is_the_neumann_sum_and_a_sum_over_paths():
    B = routed(7)
    assert np.abs(np.linalg.matrix_power(B, 7)).max() == 0
    powers = sum(np.linalg.matrix_power(B, k) for k in range(7))
    np.testing.assert_allclose(fb.kernel(B), powers, atol=1e-13)
    for t, tau in ((6, 0), (5, 2), (4, 3)):
        total = 0.0
        between = range(tau + 1, t)
        for k in range(len(between) + 1):
            for stops in itertools.combinations(between, k):
                path = [tau, *stops, t]
                total += math.prod(B[b, a] for a, b in itertools.pairwise(path))
        assert fb.kernel(B)[t, tau] == pytest.approx(total, abs=1e-13)


def test_rows_sum_to_their_gains_and_solutions_stay_bounded():
    stream = np.random.default_rng(1)
    gains = stream.uniform(-0.9, 0.9, 40)
    B = fb.routing(stream.normal(size=(40, 40)), gains)
    np.testing.assert_allclose(np.abs(B).sum(1)[1:], np.abs(gains[1:]), atol=1e-14)
    rho = np.abs(gains).max()
    assert np.abs(fb.kernel(B)).sum(1).max() <= fb.solution_bound(rho)
    f = stream.normal(size=(40, 3))
    s = fb.kernel(B) @ f
    largest = np.linalg.norm(f, axis=1).max()
    assert np.linalg.norm(s, axis=1).max() <= largest * fb.solution_bound(rho)


@pytest.mark.parametrize("row", ["uniform", "predecessor"])
def test_the_bound_on_solutions_is_approached(row):
    length, rho = 3000, 0.5
    logits = np.zeros((length, length))
    if row == "predecessor":
        logits = np.where(np.eye(length, k=-1) > 0, 0.0, -800.0)
    B = fb.routing(logits, np.full(length, rho))
    s = np.zeros(length)
    for t in range(length):
        s[t] = 1 + B[t, :t] @ s[:t]
    assert s.max() <= fb.solution_bound(rho) * (1 + 1e-12)
    assert s.max() > 0.98 * fb.solution_bound(rho)


def test_weights_of_a_softmax_lie_in_their_range():
    stream = np.random.default_rng(2)
    for _ in range(50):
        n, spread = stream.integers(1, 20), stream.uniform(0, 3)
        logits = stream.uniform(0, spread, n)
        weights = np.exp(logits) / np.exp(logits).sum()
        low, high = fb.softmax_range(spread, n)
        assert low <= weights.min()
        assert weights.max() <= high


@pytest.mark.parametrize("seed", range(6))
def test_kernels_decay_at_least_as_fast_as_is_proved(seed):
    length, spread, gain = 200, 0.2, 0.6
    stream = np.random.default_rng(seed)
    logits = stream.uniform(0, spread, (length, length))
    gains = stream.uniform(-gain, gain, length)
    alpha = fb.routing(logits, np.ones(length))
    K = np.abs(fb.kernel(fb.routing(logits, gains)))
    c2 = fb.realised_c2(alpha)
    assert c2 <= math.exp(spread)
    bound = fb.decay_bound(np.abs(gains).max(), c2, np.arange(1, length))
    for tau in range(length - 1):
        column = K[tau + 1 :, tau]
        assert (column <= bound[: len(column)] * (1 + 1e-12)).all()


def test_where_nothing_is_claimed():
    assert fb.decay_bound(0.9, 1.2, np.arange(1, 4)) is None
    assert (fb.decay_bound(0.0, 1.2, np.arange(1, 4)) == 0).all()


@pytest.mark.parametrize("gain", [0.1, 0.5, 0.9])
def test_uniform_routing_has_a_closed_form(gain):
    length = 60
    B = fb.routing(np.zeros((length, length)), np.full(length, gain))
    K = fb.kernel(B)
    for tau in (0, 1, 7, 30):
        lags = np.arange(1, length - tau)
        np.testing.assert_allclose(
            fb.uniform_kernel(gain, tau, lags), K[tau + 1 :, tau], rtol=1e-11
        )
        assert fb.uniform_kernel(gain, tau, np.array([1.0]))[0] == pytest.approx(gain / (tau + 1))
    np.testing.assert_allclose(fb.uniform_response(gain, length), K.sum(1), rtol=1e-11)
    found = fb.uniform_two_sided(gain, 10)
    for tau in range(11):
        lags = np.arange(1, length - tau, dtype=float)
        values = fb.uniform_kernel(gain, tau, lags)
        assert (found.low * (lags + 1) ** (gain - 1) <= values * (1 + 1e-12)).all()
        assert (values <= found.high * lags ** (gain - 1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("gain", [0.2, 0.5, 0.8])
def test_uniform_kernels_have_the_exponent_of_their_gain(gain):
    lags = np.logspace(3, 6, 40)
    values = fb.uniform_kernel(gain, 3, lags)
    slope = np.polyfit(np.log(lags), np.log(values), 1)[0]
    assert slope == pytest.approx(-(1 - gain), abs=0.002)
    local = fb.uniform_exponent(gain, 3, np.array([50.0]))[0]
    step = 1e-5
    ends = fb.uniform_kernel(gain, 3, 50 * np.exp([step, -step]))
    assert local == pytest.approx(np.log(ends[0] / ends[1]) / (2 * step), rel=1e-6)
    response = fb.uniform_response(gain, 400)
    assert response[0] == pytest.approx(1)
    assert (np.diff(response) > 0).all()
    assert response[-1] < 1 / (1 - gain)
    # Gautschi (67).
    t = np.arange(1, 400)
    ratio = np.exp([math.lgamma(x + gain) - math.lgamma(x + 1) for x in t])
    assert ((t + 1.0) ** (gain - 1) <= ratio).all()
    assert (ratio <= t ** (gain - 1.0)).all()


def test_powers_of_the_harmonic_kernel():
    length = 80
    t = np.arange(length)
    H = np.tril(np.ones((length, length)), -1) / (t + 1)[:, None]
    for hops in (1, 2, 3, 5):
        power = np.linalg.matrix_power(H, hops)
        assert (power <= fb.harmonic_power_bound(hops, length)[:, None] + 1e-15).all()


@pytest.mark.parametrize(("beta", "hops"), [(0.5, 2), (0.5, 3), (0.25, 2)])
def test_convolved_powers_tend_to_their_limit(beta, hops):
    n = np.arange(1, 6000, dtype=float)
    single = found = n**-beta
    for _ in range(hops - 1):
        # Positive lags: the sum over a + b = n of a^-beta times the next.
        found = np.concatenate([[0.0], np.convolve(found, single)[: len(n) - 1]])
    limit = fb.power_convolution_limit(beta, hops)
    assert found[-1] / n[-1] ** (hops * (1 - beta) - 1) == pytest.approx(limit, rel=0.05)


def test_hops_add_up_to_the_solution():
    B = routed(9)
    f = np.random.default_rng(4).normal(size=(9, 2))
    norms = fb.hop_norms(B, f, 8)
    assert norms[0] == pytest.approx(np.linalg.norm(f))
    assert norms[-1] == pytest.approx(np.linalg.norm(fb.kernel(B) @ f))


@pytest.mark.parametrize("gain", [0.2, 0.7])
def test_the_uniform_constant_is_the_kernels_at_long_lags(gain):
    for source in (0, 4, 100):
        lag = 1e7
        scaled = fb.uniform_kernel(gain, source, lag) * lag ** (1 - gain)
        assert fb.uniform_constant(gain, source) == pytest.approx(float(scaled), rel=1e-4)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("hops", [1, 2, 3, 5])
def test_convolutions_are_bounded_at_every_lag(beta, hops):
    n = np.arange(1, 400, dtype=float)
    single = found = n**-beta
    for _ in range(hops - 1):
        found = np.concatenate([[0.0], np.convolve(found, single)[: len(n) - 1]])
    bound = fb.power_convolution_bound(beta, hops, n)
    assert (bound[: hops - 1] == 0).all()
    assert (found <= bound * (1 + 1e-12)).all()
    # Its order is that of the limit, of which it is no more than a little above.
    limit = fb.power_convolution_limit(beta, hops)
    far = np.array([1e9])
    scaled = fb.power_convolution_bound(beta, hops, far) / far ** (hops * (1 - beta) - 1)
    assert scaled[0] == pytest.approx(limit, rel=1e-5)


def test_a_softmax_moves_at_most_as_its_bound_and_one_logit_nearly_as_much():
    stream = np.random.default_rng(5)
    step = 1e-6
    for _ in range(20):
        logits, slopes = stream.normal(size=(2, 7))

        def weights(by, logits=logits, slopes=slopes):
            e = np.exp(logits + by * slopes)
            return e / e.sum()

        moved = np.abs(weights(step) - weights(-step)).sum() / (2 * step)
        assert moved <= fb.softmax_slope_bound(weights(0), np.abs(slopes)) * (1 + 1e-6)
    # Of a small weight alone: 2 alpha (1 - alpha) of 2 alpha.
    alone = np.zeros(7)
    logits, alone[0] = np.array([-8.0] + 6 * [0.0]), 1.0
    e = [np.exp(logits + by * alone) for by in (step, -step)]
    moved = np.abs(e[0] / e[0].sum() - e[1] / e[1].sum()).sum() / (2 * step)
    alpha = np.exp(logits) / np.exp(logits).sum()
    assert moved == pytest.approx(fb.softmax_slope_bound(alpha, alone), rel=1e-3)
