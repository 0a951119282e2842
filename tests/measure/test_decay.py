"""Laws of decay are found again, with their exponents."""

import numpy as np
import pytest

from fedscan.measure.decay import RISING, ZERO, fit

LAGS = np.arange(1, 301)


def noisy(values, sequences=12, amount=0.02, seed=0):
    rng = np.random.default_rng(seed)
    return values * np.exp(amount * rng.normal(size=(sequences, len(values))))


@pytest.mark.parametrize(
    ("law", "values"),
    [
        ("power", 3 * LAGS**-0.4),
        ("exponential", 2 * np.exp(-0.05 * LAGS)),
        ("inverse", 0.7 / LAGS),
        ("power_log", LAGS**-1.3 * (1 + np.log1p(LAGS))),
    ],
)
def test_the_law_is_found(law, values):
    found = fit(LAGS, noisy(values), np.random.default_rng(1))
    assert found.law == law
    assert min(found.aic, key=found.aic.get) == law
    if law == "power":
        assert found.beta == pytest.approx(0.4, abs=0.01)
        assert found.beta_low < found.beta < found.beta_high
    if law == "exponential":
        assert found.rate == pytest.approx(0.05, abs=0.001)


def test_intervals_cover():
    inside = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        # Every sequence has an exponent of its own, around 0.5.
        own = 0.5 + 0.1 * rng.normal(size=(12, 1))
        found = fit(LAGS, LAGS**-own, np.random.default_rng(seed))
        inside += found.beta_low <= 0.5 <= found.beta_high
    assert 48 <= inside <= 60


def test_few_sequences_have_no_interval():
    found = fit(LAGS, noisy(1 / LAGS, sequences=9), np.random.default_rng(0))
    assert (found.beta_low, found.beta_high) == (None, None)


def test_nothing_left_is_zero():
    values = np.where(LAGS < 10, 1.0, 0.0)[None].repeat(3, 0)
    assert fit(LAGS, values, np.random.default_rng(0)).law == ZERO
    assert fit(LAGS[:9], noisy(1 / LAGS[:9]), np.random.default_rng(0)).law == ZERO


def test_what_grows_is_no_decay():
    found = fit(LAGS, noisy(np.exp(0.01 * LAGS)), np.random.default_rng(0))
    assert found.law == RISING
    assert found.rate == pytest.approx(-0.01, abs=1e-3)


def test_lags_below_the_first_do_not_count():
    values = 1 / LAGS
    bent = values.copy()
    bent[:7] = 100
    same = [fit(LAGS, noisy(v), np.random.default_rng(0)).beta for v in (values, bent)]
    assert same[0] == same[1]
