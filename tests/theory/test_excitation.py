"""Excitation: minima on caps against grids, an eigenvalue problem and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fedscan.theory.consensus import Constants, weight
from fedscan.theory.excitation import CAPS, cap_minimum, excitation, excited

FOUND = Constants(0.7, 0.9, 4.0, 1.2, 1.4)
HEIGHTS = [0.05, 0.3, 0.5, 0.9, 0.99]


def kernel(seed, n):
    return np.random.default_rng(seed).standard_normal((n, n))


def rim_by_angle(K, c):
    """n = 3: the rim z^1 = c is a circle; its minimum by a grid, then by golden sections."""

    def height(angle):
        z = np.array([c, *(np.sqrt(1 - c * c) * np.array([np.cos(angle), np.sin(angle)]))])
        return float(z @ K @ z)

    grid = np.linspace(0, 2 * np.pi, 721)
    best = grid[np.argmin([height(angle) for angle in grid])]
    width = grid[1]
    found = minimize_scalar(height, bounds=(best - width, best + width), method="bounded",
                            options={"xatol": 1e-12})  # fmt: skip
    return min(found.fun, height(best))


def rim_by_eigenvalues(K, axis, c):
    """Stationary points on the rim are eigenvalues of a problem of twice the size.

    (A - mu)^2 e = h h^T e has its smallest real mu at the minimum: Gander, Golub, von Matt (1989).
    """
    M, others = (K + K.T) / 2, np.arange(len(K)) != axis
    reach = np.sqrt(1 - c * c)
    A, h = M[np.ix_(others, others)], c / reach * M[others, axis]
    size, one = len(h), np.eye(len(h))
    pencil = np.block([[A, -one], [-np.outer(h, h), A]])
    values = np.linalg.eigvals(pencil)
    mu = values[np.abs(values.imag) < 1e-7 * (1 + np.abs(values))].real.min()
    e = np.linalg.lstsq(A - mu * np.eye(size), -h, rcond=None)[0]
    e /= np.linalg.norm(e)
    return c * c * M[axis, axis] + reach**2 * float(e @ A @ e + 2 * h @ e)


def lowest_in_cap(K, axis, c):
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return values[0] if abs(vectors[axis, 0]) >= c else None


@pytest.mark.parametrize("c", HEIGHTS)
@pytest.mark.parametrize("seed", range(6))
def test_in_three_dimensions_the_minimum_is_that_of_a_grid(seed, c):
    K = kernel(seed, 3)
    inside = lowest_in_cap(K, 0, c)
    wanted = rim_by_angle(K, c) if inside is None else inside
    assert cap_minimum(K, 0, c) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("c", HEIGHTS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [4, 7])
def test_the_rim_is_that_of_an_eigenvalue_problem(seed, n, c):
    K, axis = kernel(seed, n), seed % n
    inside = lowest_in_cap(K, axis, c)
    wanted = rim_by_eigenvalues(K, axis, c) if inside is None else inside
    assert cap_minimum(K, axis, c) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("c", HEIGHTS)
def test_no_point_of_the_cap_is_below_the_minimum_and_some_are_near(c):
    rng = np.random.default_rng(1)
    for seed in range(5):
        K = kernel(seed, 4)
        e = rng.standard_normal((40000, 3))
        e /= np.linalg.norm(e, axis=1, keepdims=True)
        b = np.concatenate([np.full(20000, c), rng.uniform(c, 1, 20000)])
        z = np.concatenate([b[:, None], np.sqrt(1 - b * b)[:, None] * e], axis=1)
        seen = np.einsum("ki,ij,kj->k", z, K, z).min()
        found = cap_minimum(K, 0, c)
        assert found <= seen + 1e-12
        assert seen - found < 0.05 * np.linalg.norm(K)


@pytest.mark.parametrize("seed", range(6))
def test_caps_that_are_everything_or_a_point(seed):
    K = kernel(seed, 5)
    assert cap_minimum(K, 2, 0.0) == pytest.approx(np.linalg.eigvalsh((K + K.T) / 2)[0])
    assert cap_minimum(K, 2, 1.0) == pytest.approx(K[2, 2])
    minima = [cap_minimum(K, 2, c) for c in np.linspace(0, 1, 30)]
    assert (np.diff(minima) >= -1e-12).all()  # smaller caps, larger minima


@pytest.mark.parametrize("c", HEIGHTS)
@pytest.mark.parametrize("seed", range(8))
def test_two_channels_by_hand(seed, c):
    K = kernel(seed, 2)
    inside = lowest_in_cap(K, 0, c)
    ends = [np.array([c, side * np.sqrt(1 - c * c)]) for side in (1, -1)]
    wanted = min(z @ K @ z for z in ends) if inside is None else inside
    assert cap_minimum(K, 0, c) == pytest.approx(wanted, abs=1e-13)


@pytest.mark.parametrize("pull", [0.0, 1e-18, 1e-9, 0.3, 3.0, 50.0])
@pytest.mark.parametrize("c", [0.2, 0.6, 0.95])
def test_the_hard_case_where_nothing_pulls_along_the_lowest_eigenvector(c, pull):
    # A = diag(-1, 2), h along the second only: the root is at -1 unless the pull is strong.
    K = np.array([[9.0, 0.0, pull], [0.0, -1.0, 0.0], [pull, 0.0, 2.0]])
    inside = lowest_in_cap(K, 0, c)
    wanted = rim_by_angle(K, c) if inside is None else inside
    assert cap_minimum(K, 0, c) == pytest.approx(wanted, abs=1e-11)


@pytest.mark.parametrize("pull", [1e-16, 1e-14, 1e-12, 1e-8, 1e-4])
def test_nearly_hard_cases_change_continuously(pull):
    hard = np.array([[9.0, 0.0, 0.3], [0.0, -1.0, 0.0], [0.3, 0.0, 2.0]])
    nearly = hard.copy()
    nearly[0, 1] = nearly[1, 0] = pull
    change = cap_minimum(nearly, 0, 0.4) - cap_minimum(hard, 0, 0.4)
    assert abs(change) <= 2 * pull + 1e-14
    assert cap_minimum(nearly, 0, 0.4) == pytest.approx(rim_by_angle(nearly, 0.4), abs=1e-12)


def test_equal_eigenvalues():
    assert cap_minimum(1.7 * np.eye(4), 0, 0.5) == pytest.approx(1.7, abs=1e-15)
    # The lowest eigenvectors are e^2 and e^3, both on the equator.
    K = np.diag([3.0, -1.0, -1.0, 5.0])
    assert cap_minimum(K, 0, 0.6) == pytest.approx(0.36 * 3 - 0.64, abs=1e-14)
    # A plane of lowest eigenvectors that reaches into the cap, whichever basis is returned.
    assert cap_minimum(np.diag([-1.0, -1.0, 2.0]), 0, 0.6) == pytest.approx(-1, abs=1e-14)


def test_a_skew_part_and_the_side_of_the_cap_change_nothing():
    K = kernel(3, 4)
    skew = kernel(4, 4)
    moved = cap_minimum(K + skew - skew.T, 1, 0.4)
    assert moved == pytest.approx(cap_minimum(K, 1, 0.4), abs=1e-13)


def alternating(strong, weak):
    """Kernels whose cap minimum is their factor, on every cap."""
    return [strong * np.eye(3), weak * np.eye(3)]


def test_layers_excite_by_the_weight_of_their_minimum():
    found = excited(alternating(2.0, -0.1), 0, FOUND, 0.5)
    np.testing.assert_allclose(found, [2.0 * 0.7 * 0.5 * 1.5, -0.1 * 2 * 4.9])
    np.testing.assert_allclose(found, weight(np.array([2.0, -0.1]), 0.5, FOUND))


def test_corollary_iv_1_a_positive_kernel_excites_in_one_layer():
    made = excitation([np.eye(3)], 0, FOUND)
    assert made.window == 1
    # The widest gain: gamma c (1 + c) grows with the cap's height.
    assert made.c == 0.9
    assert made.rho == made.weakest == pytest.approx(0.7 * 0.9 * 1.9)
    # Positive near the axis alone: a high cap does, a low one does not.
    K = np.diag([1.0, -0.5, -0.5])
    assert cap_minimum(K, 0, 0.2) < 0 < cap_minimum(K, 0, 0.7)
    assert excitation([K], 0, FOUND).window == 1


def test_alternating_layers_excite_in_two_only_while_the_negative_one_is_weak():
    made = excitation(alternating(1.0, -0.1), 0, FOUND)
    assert made.window == 2
    assert made.c == 0.9
    assert made.rho == pytest.approx((0.7 * 0.9 * 1.9 - 0.1 * 9.8) / 2)
    assert made.weakest == pytest.approx(-0.98)
    assert excitation(alternating(1.0, -0.2), 0, FOUND) is None
    assert excitation(alternating(-1.0, -1.0), 0, FOUND) is None


@pytest.mark.parametrize("seed", range(12))
def test_windows_that_begin_anywhere_have_the_mean_and_no_shorter_window_does(seed):
    rng = np.random.default_rng(seed)
    factors = rng.uniform(0, 1, rng.integers(2, 7))
    factors[::3], factors[1] = -0.05, 1.0
    kernels = [factor * np.eye(3) for factor in factors]
    made = excitation(kernels, 0, FOUND)
    assert made is not None

    def means(c, window, starts):
        """Integral of the piecewise constant alpha_c over [t, t + window], by fine steps."""
        layers, fine = excited(kernels, 0, FOUND, c), 64
        values = np.repeat(np.tile(layers, 3), fine)
        begins = (np.asarray(starts) * fine).astype(int)
        return np.array([values[b : b + window * fine].mean() for b in begins])

    anywhere = rng.integers(0, 64 * len(factors), 300) / 64
    assert (means(made.c, made.window, anywhere) >= made.rho - 1e-12).all()
    whole = np.arange(len(factors))
    assert means(made.c, made.window, whole).min() == pytest.approx(made.rho)
    assert made.weakest == excited(kernels, 0, FOUND, made.c).min()
    for c in CAPS:
        for window in range(1, made.window):
            assert means(c, window, whole).min() <= 0
        assert means(c, made.window, whole).min() <= made.rho + 1e-12
