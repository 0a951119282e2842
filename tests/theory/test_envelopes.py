"""Bounds end to end: their shapes, and what each constant does."""

import numpy as np
import pytest

from fedscan.theory.envelopes import (
    LoopConstants,
    attention_stack_bound,
    attention_stack_envelope,
    convolution_constant,
    loop_envelope,
    loop_jacobian_bound,
    loop_stack_bound,
    loop_stack_envelope,
    recurrence_bound,
    recurrence_stack_constant,
    recurrence_stack_envelope,
    scaffold_error_bound,
    stack_bound,
    zoh_jacobian_bound,
    zoh_state_bound,
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


def test_recurrences_by_hand():
    passed = np.array([0.0, 2.0])
    np.testing.assert_allclose(recurrence_bound(2, 3, 0.5, passed), [6, 6 * np.exp(-1)])
    # The bound is reached by an input that stays at its largest.
    h = 0.0
    for _ in range(400):
        h = np.exp(-0.5 * 0.1) * h + (1 - np.exp(-0.5 * 0.1)) / 0.5 * 3
    assert h <= zoh_state_bound(3.0, 0.5)
    assert h == pytest.approx(zoh_state_bound(3.0, 0.5), rel=1e-6)


def hops(kernel, k, t, source):
    """Sum over increasing paths of k edges, one after another."""
    if k == 0:
        return float(t == source)
    return sum(kernel(t, j) * hops(kernel, k - 1, j, source) for j in range(source, t))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_stacks_are_below_their_bounds_path_by_path(layers):
    length, rate, beta = 9, 0.3, 0.4
    kernels = {
        "attention": lambda t, j: 1 / (t + 1),
        "recurrence": lambda t, j: np.exp(-rate * (t - j)),
        "loop": lambda t, j: float(loop_envelope(np.array(t - j), beta)),
    }
    for t in range(1, length):
        lags = np.array([float(t)])
        bounds = {
            "attention": attention_stack_bound(layers, length)[t],
            "recurrence": recurrence_stack_constant(layers)
            * recurrence_stack_envelope(lags, layers, rate)[0],
            "loop": loop_stack_bound(lags, layers, beta)[0],
        }
        for name, kernel in kernels.items():
            weights = [1, layers, layers * (layers - 1) // 2, layers == 3]
            found = sum(weights[k] * hops(kernel, k, t, 0) for k in range(1, layers + 1))
            assert found <= bounds[name] * (1 + 1e-12), name
            # One hop and one layer: the attention's bound is what it bounds.
            if layers == 1 and name == "attention":
                assert found == pytest.approx(bounds[name])


def test_the_loops_stack_envelope_by_hand():
    lags = np.array([1.0, 10.0])
    logs = 1 + np.log(1 + lags)
    wanted = lags**-0.3 * logs + lags**0.4 * logs**2
    np.testing.assert_allclose(loop_stack_envelope(lags, 2, 0.3), wanted)
    # Of the bound's order: their ratio settles.
    far = np.array([1e4, 1e8])
    ratio = loop_stack_bound(far, 2, 0.3) / loop_stack_envelope(far, 2, 0.3)
    assert ratio[1] == pytest.approx(ratio[0], rel=0.05)


@pytest.mark.parametrize(("layers", "vanishes"), [(2, True), (3, True), (4, False), (6, False)])
def test_the_loops_stack_envelope_vanishes_below_one(layers, vanishes):
    near, far = loop_stack_envelope(np.array([1e60, 1e240]), layers, 0.75)
    assert (far < near) == vanishes
