"""The constructed retrieval's kernels against loops, and margins by hand."""

import numpy as np
import pytest

from fedscan.theory.retrieval import (
    gates,
    macro_kernel,
    margins,
    profile_exponent,
    selective_kernel,
)


def macro_by_hand(beta, length):
    """Column by column: x + s, s_t = mean of m x up to t + (1 - beta) mean of earlier s."""
    found = np.zeros((length, length))
    for source in range(length):
        x = np.zeros(length)
        x[source] = 1
        s = []
        for t in range(length):
            f = sum((j + 1) ** (1 - beta) * x[j] for j in range(t + 1)) / (t + 1)
            s.append(f + ((1 - beta) * sum(s) / t if t else 0))
        found[:, source] = x + np.array(s)
    return found


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.9])
def test_a_macro_layer_token_by_token(beta):
    np.testing.assert_allclose(macro_kernel(beta, 17), macro_by_hand(beta, 17), rtol=1e-12)


def test_a_longer_kernel_has_the_shorter_one_in_it():
    np.testing.assert_allclose(macro_kernel(0.5, 40)[:20, :20], macro_kernel(0.5, 20), rtol=1e-12)


def test_the_stack_multiplies_the_gates_first():
    found = selective_kernel(0.5, 2, 3, 10, 0.02)
    x = np.random.default_rng(0).normal(size=14)
    macro = macro_by_hand(0.5, 14)
    np.testing.assert_allclose(found @ x, macro @ (macro @ (gates(3, 10, 0.02) * x)), rtol=1e-10)


def test_gates():
    found = gates(3, 9, 0.02)
    assert found[3] == 1
    assert (np.delete(found, 3) == 0.002).all()
    assert len(found) == 13


def test_margins_by_hand():
    kernel = np.array([[9, 0, 0, 0], [1, 9, 0, 0], [5, -2, 9, 0], [-1, 4, 2, 9.0]])
    found = margins(kernel, 1)
    assert found.score.tolist() == [-2, 4]
    assert found.competitors.tolist() == [5, 3]
    assert found.margin.tolist() == [-7, 1]


def test_exponents():
    assert profile_exponent(0.5, 1) == -0.5
    assert profile_exponent(0.5, 2) == 0
    assert profile_exponent(2 / 3, 3) == pytest.approx(0)
    assert profile_exponent(0.25, 2) == 0.5
