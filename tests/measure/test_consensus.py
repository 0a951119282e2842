"""Measures of agreement and of windows, by hand and by property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedscan.measure import consensus
from fedscan.measure.consensus import (
    norms,
    summarise,
    t_star,
    window_minima,
    without_direction,
)

SEQUENCES = arrays(
    np.float64,
    st.integers(1, 12),
    elements=st.floats(-4, 4).map(lambda x: round(x, 3)),
)


def agreement(tokens):
    return consensus.agreement(tokens, norms(tokens))


def random_tokens(seed, shape=(5, 3)):
    return np.random.default_rng(seed).standard_normal(shape)


def test_identical_tokens_up_to_sign():
    token = np.array([3.0, 4.0])
    found = agreement(np.stack([token, -2 * token, token / 7]))
    assert found.lambda1 == pytest.approx(1, abs=1e-14)
    assert found.participation == pytest.approx(1, abs=1e-14)
    assert found.mean_cosine == pytest.approx(-1 / 3, abs=1e-14)  # two of three pairs disagree


def test_orthonormal_tokens():
    found = agreement(np.eye(4))
    assert found.lambda1 == pytest.approx(1 / 4)
    assert found.participation == pytest.approx(4)
    assert found.mean_cosine == pytest.approx(0)


def test_participation_by_eigenvalues_and_its_bounds():
    tokens = random_tokens(0, (7, 6, 4))
    found = agreement(tokens)
    unit = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    # Of the other side: the non-zero eigenvalues of X^T X are those of X X^T.
    values = np.linalg.eigvalsh(np.einsum("dtn,dtm->dnm", unit, unit)) / 6
    np.testing.assert_allclose(found.lambda1, values[:, -1], rtol=1e-13)
    np.testing.assert_allclose(found.participation, 1 / (values**2).sum(-1), rtol=1e-12)
    assert (1 / found.lambda1 <= found.participation + 1e-9).all()
    assert (found.participation <= 1 / found.lambda1**2 + 1e-9).all()


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
def test_scale_signs_and_order_do_not_matter(seed, scale):
    tokens = random_tokens(seed)
    generator = np.random.default_rng(seed)
    moved = scale * tokens[generator.permutation(5)] * generator.choice([-1, 1], (5, 1))
    before, after = agreement(tokens), agreement(moved)
    assert after.lambda1 == pytest.approx(before.lambda1, rel=1e-10)
    assert after.participation == pytest.approx(before.participation, rel=1e-10)


def test_a_batch_is_its_parts_bit_for_bit():
    tokens = random_tokens(1, (5, 6, 4))
    whole = agreement(tokens)
    for index, part in enumerate(tokens):
        for of_all, alone in zip(whole, agreement(part), strict=True):
            assert of_all[index] == alone


def test_tokens_without_a_direction():
    tokens = np.array([[1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 0.0]])
    assert without_direction(norms(tokens)).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("values", "minima", "shortest"),
    [
        ([1, -1, 2], [-1, 0, 2 / 3], 3),
        ([0, 0], [0, 0], 0),
        ([3, 1], [1, 2], 1),
        ([-1, 5, -1], [-1, 2, 1], 2),
    ],
)
def test_windows_by_hand(values, minima, shortest):
    found = window_minima(np.array(values, float))
    np.testing.assert_allclose(found, minima)
    assert t_star(found) == shortest


@given(SEQUENCES)
def test_windows_by_definition(values):
    found = window_minima(values)
    for length in range(1, len(values) + 1):
        means = [values[t : t + length].mean() for t in range(len(values) - length + 1)]
        assert found[length - 1] == pytest.approx(min(means), abs=1e-12)


@given(SEQUENCES, st.integers(1, 4))
def test_a_window_of_several_windows_is_no_worse(values, times):
    found = window_minima(values)
    for length in range(1, len(values) // times + 1):
        assert found[times * length - 1] >= found[length - 1] - 1e-12


@given(SEQUENCES)
def test_shortest_window_is_one_where_all_are_positive_and_ignores_scale(values):
    shortest = t_star(window_minima(values))
    assert (shortest == 1) == (values > 0).all()
    assert t_star(window_minima(4 * values)) == shortest


def test_a_small_value_beside_a_large_one_counts():
    assert t_star(window_minima(np.array([1e20, 1e-20, 1e20]))) == 1


def test_summary_by_hand():
    found = summarise(np.array([[1.0, 2.0], [-2.0, 1.0], [3.0, 3.0]]))
    np.testing.assert_allclose(found.mean, [2 / 3, 2])
    np.testing.assert_allclose(found.minimum, [-2, 1])
    np.testing.assert_allclose(found.negative_share, [1 / 3, 0])
    np.testing.assert_allclose(found.margin, [2, np.inf])


def test_many_sequences_at_once():
    values = np.random.default_rng(3).standard_normal((9, 4, 2)) + 0.3
    whole = t_star(window_minima(values))
    for index in np.ndindex(4, 2):
        assert whole[index] == t_star(window_minima(values[(slice(None), *index)]))
