"""Power iteration against dense eigenvalues."""

import numpy as np
import pytest

from fedscan.measure.curvature import hessian_norms


def of(matrices, iterations, tolerance=1e-9, seed=0):
    stacked = np.stack(matrices)
    starts = np.random.default_rng(seed).normal(size=stacked.shape[:2])
    calls = []

    def products(directions, active):
        calls.append(len(active))
        return np.einsum("mij,mj->mi", stacked[active], directions)

    return hessian_norms(products, starts, iterations, tolerance), calls


def symmetric(eigenvalues, seed):
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(eigenvalues),) * 2))
    return q @ np.diag(eigenvalues) @ q.T


def test_norms_of_dense_matrices():
    matrices = [symmetric([5, 1, 0.5, -2], 1), symmetric([-7, 1, 2, 3], 2)]
    found, _ = of(matrices, 200)
    assert found.norms == pytest.approx([5, 7], rel=1e-6)
    assert found.converged.all()


def test_never_above_the_norm_and_not_fooled_by_opposite_signs():
    matrix = symmetric([3, -3, 1, 0], 3)
    found, _ = of([matrix], 15)
    # v.Hv wavers between the two eigenvalues; ||Hv|| does not.
    assert found.norms[0] == pytest.approx(3, rel=1e-3)
    for iterations in (1, 2, 5):
        assert of([matrix], iterations)[0].norms[0] <= 3 * (1 + 1e-12)


def test_converged_losses_are_left_alone():
    found, calls = of([np.eye(3), symmetric([2, 1.9, 0], 4)], 10)
    assert found.iterations.tolist() == [2, 10]
    assert found.converged.tolist() == [True, False]
    assert calls[0] == 2
    assert calls[-1] == 1


def test_a_zero_hessian_has_norm_zero():
    found, _ = of([np.zeros((2, 2))], 5)
    assert found.norms[0] == 0
    assert found.converged[0]
