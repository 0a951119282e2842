"""The constructed retrieval's kernels against loops, and margins by hand."""

import numpy as np
import pytest

from fedscan.theory.retrieval import (
    exponent_error,
    gates,
    macro_applied,
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


@pytest.mark.parametrize("beta", [0.05, 0.5, 0.95])
def test_a_macro_layer_in_linear_time(beta):
    x = np.random.default_rng(1).normal(size=300)
    np.testing.assert_allclose(macro_applied(beta, x), macro_kernel(beta, 300) @ x, rtol=1e-9)
    np.testing.assert_allclose(macro_applied(beta, np.ones(1)), macro_kernel(beta, 1)[0])


@pytest.mark.parametrize(("beta", "layers"), [(0.5, 2), (2 / 3, 3), (0.8, 4), (0.25, 3)])
def test_local_exponents_are_within_their_expected_error(beta, layers):
    scores = np.zeros(30_000)
    scores[3] = 1.0
    for _ in range(layers):
        scores = macro_applied(beta, scores)
    nu = profile_exponent(beta, layers)
    for lag in (1_000, 20_000):
        ends = np.array([lag, int(1.1 * lag)])
        slope = np.diff(np.log(scores[3 + ends]))[0] / np.diff(np.log1p(ends))[0]
        assert abs(slope - nu) <= exponent_error(beta, layers, 3, lag) + 3 / lag
    # No correction where one hop makes the score, and less of it further away.
    assert exponent_error(beta, 1, 3, 100) == 0
    assert exponent_error(beta, 2, 3, 1e5) < exponent_error(beta, 2, 3, 1e3)


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
