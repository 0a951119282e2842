"""Displacement quantities against plain arithmetic."""

import math

import pytest
import torch

from fedscan.operators.geometry import alignment, gram, mean_cosines, sum_ratio
from tests.operators.test_operators import BASE, EXPERTS, model


def flat(params):
    return torch.cat([params[name].flatten().double() for name in BASE])


def test_gram_is_the_matrix_of_inner_products():
    vectors = torch.stack([flat(e) - flat(BASE) for e in EXPERTS])
    torch.testing.assert_close(gram(BASE, EXPERTS), vectors @ vectors.T, rtol=1e-6, atol=1e-6)
    products = gram(BASE, EXPERTS)
    expected = vectors.sum(0).norm() ** 2 / sum(v.norm() ** 2 for v in vectors)
    assert sum_ratio(products) == pytest.approx(float(expected), rel=1e-6)
    cosine = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    assert mean_cosines(products)[1] == pytest.approx(float((cosine[1].sum() - 1) / 3), rel=1e-5)


def test_the_sum_ratio_of_equal_orthogonal_and_opposite_vectors():
    base = {"w": torch.zeros(2)}
    one, other = {"w": torch.tensor([2.0, 0.0])}, {"w": torch.tensor([0.0, 3.0])}
    opposite = {"w": torch.tensor([-2.0, 0.0])}
    assert sum_ratio(gram(base, [one, one, one])) == 3
    assert sum_ratio(gram(base, [one, other])) == 1
    assert sum_ratio(gram(base, [one, opposite])) == 0
    assert math.isnan(sum_ratio(gram(base, [base, base])))
    assert mean_cosines(gram(base, [one])) == [None]


def test_alignment_of_a_step_along_the_gradient():
    gradient = model(9)
    moved = {name: BASE[name] - 0.1 * gradient[name] for name in BASE}
    found = alignment(BASE, moved, gradient)
    length = float(flat(gradient).norm())
    assert found.norm == pytest.approx(0.1 * length, rel=1e-5)
    assert found.first_order == pytest.approx(-0.1 * length**2, rel=1e-5)
    assert found.cosine == pytest.approx(1.0, abs=1e-6)
    assert alignment(BASE, BASE, gradient) == (0.0, 0.0, 0.0)
