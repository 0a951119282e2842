"""Bounds end to end: their shapes, and what each constant does."""

import numpy as np
import pytest

from fedscan.theory.envelopes import (
    LoopConstants,
    attention_stack_envelope,
    convolution_constant,
    loop_envelope,
    loop_jacobian_bound,
    recurrence_stack_envelope,
    scaffold_error_bound,
    stack_bound,
    zoh_jacobian_bound,
)

CONSTANTS = LoopConstants(0.4, 0.5, 1.0, 2.0, 3.0, 0.7, 0.6, 0.2)


def test_theorem_23_by_hand():
    lags = np.array([1, 10, 100])
    solution = 1.0 / (1 - 0.4)
    own = 3.0 + 0.2 * solution + 0.4 * solution * 0.6
    earlier = 2.0 + 2 * 0.4 * solution * 0.7
    factor = max(1, 0.5 * np.exp(0.5))
    c = 2**0.5 + 2**0.5 / 0.5
    wanted = factor * (own + (1 + c) * earlier) * lags**-0.5 * (1 + np.log(1 + lags))
    np.testing.assert_allclose(loop_jacobian_bound(CONSTANTS, lags), wanted)


@pytest.mark.parametrize("name", LoopConstants._fields)
def test_every_constant_raises_the_bound(name):
    if name == "eta":
        return
    more = CONSTANTS._replace(**{name: 1.2 * getattr(CONSTANTS, name)})
    lags = np.array([1, 30])
    assert (loop_jacobian_bound(more, lags) > loop_jacobian_bound(CONSTANTS, lags)).all()


def test_nothing_is_claimed_from_eta_1_on():
    assert loop_jacobian_bound(CONSTANTS._replace(eta=1.0), np.array([1])) is None
    assert loop_jacobian_bound(CONSTANTS._replace(gain_max=1.0), np.array([1])) is None


def test_without_a_loop_only_attention_is_left():
    off = LoopConstants(0.0, 0.0, 1.0, 2.0, 3.0, 0.7, 0.6, 0.0)
    found = loop_jacobian_bound(off, np.array([4]))
    np.testing.assert_allclose(found, (3.0 + 2.0) * loop_envelope(np.array([4]), 1.0))


def test_the_convolutions_constant_is_nearly_needed():
    # The sum of (lag - k)^-beta / (k + 1) from source 0, at a long lag.
    for beta in (0.3, 0.7):
        lag = 20_000
        k = np.arange(lag)
        left = ((lag - k).astype(float) ** -beta / (k + 1)).sum()
        ratio = left / loop_envelope(np.array(lag), beta)
        assert 0.25 * convolution_constant(beta) < ratio + 1 < convolution_constant(beta) + 1
        assert ratio < convolution_constant(beta)


def test_a_stack_of_one_and_of_two():
    a, b = np.tril(np.random.default_rng(0).random((2, 5, 5)))
    assert stack_bound([a]) is a
    np.testing.assert_allclose(stack_bound([a, b]), b @ a)


def test_envelopes():
    lags = np.array([1.0, 9.0])
    np.testing.assert_allclose(attention_stack_envelope(lags, 1), 1 / (1 + lags))
    np.testing.assert_allclose(
        attention_stack_envelope(lags, 3), np.log(1 + lags) ** 2 / (1 + lags)
    )
    np.testing.assert_allclose(
        recurrence_stack_envelope(lags, 2, 0.1), (1 + lags) * np.exp(-0.1 * lags)
    )


def test_zero_order_hold_by_hand():
    gate = 2.0 * 3.0
    state = np.sqrt(4) * 5 * 7 / 0.5
    wanted = gate * state + gate / 0.5 * 35 + (11 * 7 + 5 * 13) / 0.5
    assert zoh_jacobian_bound(0.5, 2.0, 3.0, 7, 5, 13, 11, 4) == pytest.approx(wanted)


def test_a_scaffold_with_more_balance_is_nearer_to_linear():
    near, far = (scaffold_error_bound(4, m, 0.5, 1e-5) for m in (400, 40))
    assert near < far / 8
