"""The smallest value on a cap, against sampling, closed forms and another solver; windows."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedscan.experiments.consensus.instances import AXIS, instance
from fedscan.theory.excitation import CAPS, cap_minimum, excitation, excited

N = 4


def random_kernel(seed, n=N):
    return np.random.default_rng(seed).standard_normal((n, n))


def searched(kernel, axis, c):
    """The same by descent from many starts, the cap as a constraint."""
    stream = np.random.default_rng(0)
    best = np.inf
    for _ in range(12):
        z = stream.standard_normal(len(kernel))
        z /= np.linalg.norm(z)
        z[axis] = np.sign(z[axis]) * max(abs(z[axis]), c)
        constraints = [
            {"type": "eq", "fun": lambda z: z @ z - 1},
            {"type": "ineq", "fun": lambda z: z[axis] ** 2 - c * c},
        ]
        found = minimize(lambda z: z @ kernel @ z, z, constraints=constraints, method="SLSQP")
        if found.success:
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("c", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_on_a_cap_by_another_solver(seed, c):
    kernel = random_kernel(seed)
    assert cap_minimum(kernel, 1, c) == pytest.approx(searched(kernel, 1, c), abs=1e-5)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_no_sampled_point_of_the_cap_is_lower_and_the_minimum_is_reached(n):
    stream = np.random.default_rng(7)
    for seed in range(20):
        kernel, c = random_kernel(seed, n), stream.uniform(0.05, 0.98)
        z = stream.standard_normal((4000, n))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        # Points on the cap's rim, where the minimum lies if it is not inside.
        rim = z.copy()
        rim[:, 0] = 0
        rim *= np.sqrt(1 - c * c) / np.linalg.norm(rim, axis=1, keepdims=True)
        rim[:, 0] = c
        inside = z[np.abs(z[:, 0]) >= c]
        values = np.einsum("ki,ij,kj->k", *[np.concatenate([rim, inside])] * 1, kernel,
                           np.concatenate([rim, inside]))  # fmt: skip
        found = cap_minimum(kernel, 0, c)
        assert found <= values.min() + 1e-12
        assert found >= np.linalg.eigvalsh((kernel + kernel.T) / 2)[0] - 1e-12
        if n < 6:
            assert found == pytest.approx(values.min(), abs=0.05 * np.linalg.norm(kernel))


def test_closed_forms():
    # Diagonal: nothing couples the axis, the hard case; z^a = c and the rest along the lowest.
    kernel = np.diag([3.0, 1.0, 2.0])
    assert cap_minimum(kernel, 0, 0.6) == pytest.approx(0.36 * 3 + 0.64 * 1)
    assert cap_minimum(kernel, 1, 0.6) == pytest.approx(1.0)  # the lowest vector is in the cap
    assert cap_minimum(kernel, 0, 1.0) == 3.0
    assert cap_minimum(kernel, 0, 0.0) == pytest.approx(1.0)
    # Isotropic.
    assert cap_minimum(2.5 * np.eye(4), 2, 0.4) == pytest.approx(2.5)
    # Two channels: the angle alone.
    kernel = np.array([[1.0, 2.0], [2.0, -1.0]])
    for c in (0.3, 0.7, 0.95):
        angles = np.linspace(-np.pi, np.pi, 200001)
        z = np.stack([np.cos(angles), np.sin(angles)])
        values = np.einsum("ik,ij,jk->k", z, kernel, z)[np.abs(z[0]) >= c]
        assert cap_minimum(kernel, 0, c) == pytest.approx(values.min(), abs=1e-4)


def test_a_skew_part_does_not_matter():
    kernel = random_kernel(3)
    skew = random_kernel(4)
    found = cap_minimum(kernel + skew - skew.T, 0, 0.5)
    assert found == pytest.approx(cap_minimum(kernel, 0, 0.5), abs=1e-12)


def test_a_degenerate_lowest_eigenvalue():
    kernel = np.diag([4.0, 1.0, 1.0, 5.0])
    assert cap_minimum(kernel, 0, 0.8) == pytest.approx(0.64 * 4 + 0.36)
    kernel[0, 3] = kernel[3, 0] = 1e-9  # coupled to a higher one: still nearly the hard case
    assert cap_minimum(kernel, 0, 0.8) == pytest.approx(0.64 * 4 + 0.36, abs=1e-8)


def test_windows_of_layers_in_turn():
    one = instance(0, "alternating", 0.0, 0, 5, 6, 4)
    found = excitation(one.kernels, AXIS, one.constants)
    layers = excited(one.kernels, AXIS, one.constants, found.c)
    assert layers[0] > 0 > layers[1]
    assert found.window == 2
    assert found.rho == pytest.approx(layers.mean())
    assert found.weakest == pytest.approx(layers.min())
    # No window that starts anywhere, within a layer too, has a smaller mean.
    fine = np.repeat(np.tile(layers, 3), 50)
    means = np.convolve(fine, np.ones(100) / 100, mode="valid")
    assert means.min() >= found.rho - 1e-12


def test_a_constant_kernel_positive_on_a_cap_needs_one_layer():
    # Corollary IV.1.
    for kind in ("isotropic", "definite"):
        one = instance(1, kind, 0.3, 0, 5, 6, 4)
        found = excitation(one.kernels, AXIS, one.constants)
        assert found.window == 1
        assert found.c in CAPS


def test_no_excitation_where_the_mean_is_negative():
    one = instance(0, "definite", 0.3, 0, 5, 6, 4)
    assert excitation([-one.kernels[0]], AXIS, one.constants) is None
    assert excitation([one.kernels[0], -one.kernels[0]], AXIS, one.constants) is None
