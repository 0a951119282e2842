"""Algebra against plain NumPy, and its promises: no mutation, order-independent means."""

import numpy as np
import pytest
import torch

from fedscan.params import algebra


def draw(seed, dtype=torch.float32, size=5000):
    g = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(size, generator=g).to(dtype),
        "b": torch.randn(3, 7, generator=g).to(dtype),
        "c": torch.randn((), generator=g).to(dtype),
    }


def flat(p):
    return np.concatenate([t.double().numpy().ravel() for t in p.values()])


def test_linear_operations():
    a, b = draw(0, torch.float64), draw(1, torch.float64)
    np.testing.assert_array_equal(flat(algebra.add(a, b)), flat(a) + flat(b))
    np.testing.assert_array_equal(flat(algebra.add(a, b, -0.5)), flat(a) - 0.5 * flat(b))
    np.testing.assert_array_equal(flat(algebra.subtract(a, b)), flat(a) - flat(b))
    np.testing.assert_array_equal(flat(algebra.multiply(a, 3.0)), 3 * flat(a))
    assert not flat(algebra.zeros_like(a)).any()


def test_norm_and_dot():
    a, b = draw(0), draw(1)
    assert algebra.norm(a) == pytest.approx(np.linalg.norm(flat(a)), rel=1e-6)
    assert algebra.dot(a, b) == pytest.approx(flat(a) @ flat(b), rel=1e-4)
    exact = draw(2, torch.float64)
    assert algebra.norm(exact) == pytest.approx(np.linalg.norm(flat(exact)), rel=1e-14)
    assert algebra.dot(exact, exact) == pytest.approx(flat(exact) @ flat(exact), rel=1e-14)


def test_norm_of_a_long_float32_tensor_is_accurate():
    # torch's own norm of one such vector is off by about 5e-4.
    a = {"a": torch.rand(3_000_000, generator=torch.Generator().manual_seed(0))}
    assert algebra.norm(a) == pytest.approx(np.linalg.norm(flat(a)), rel=1e-6)


def test_the_mean_of_float32_does_not_depend_on_the_order():
    items = [draw(seed) for seed in range(32)]
    weights = [1 / 32] * 32
    one = algebra.weighted_mean(items, weights)
    other = algebra.weighted_mean(items[::-1], weights)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert one["a"].dtype == torch.float32
    np.testing.assert_allclose(flat(one), np.mean([flat(i) for i in items], axis=0), atol=1e-7)


def test_mean_needs_items_and_as_many_weights():
    with pytest.raises(ValueError, match="at least one item"):
        algebra.weighted_mean([], [])
    with pytest.raises(ValueError, match="shorter"):
        algebra.weighted_mean([draw(0), draw(1)], [1.0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_all_finite(value):
    a = draw(0)
    assert algebra.all_finite(a)
    a["b"][1, 2] = value
    assert not algebra.all_finite(a)
    # Infinities of both signs cancel to NaN in a sum; a huge finite sum is still finite.
    assert algebra.all_finite({"a": torch.full((4,), 1e308, dtype=torch.float64)})


def test_clone_shares_nothing():
    a = draw(0)
    b = algebra.clone(a)
    b["a"].zero_()
    assert a["a"].any()


def test_launches_for_all_tensors_at_once_give_the_same(monkeypatch):
    g = torch.Generator().manual_seed(3)
    a, b = (
        {"x": torch.randn(70_000, generator=g), "y": torch.randn(3, 4, generator=g)} for _ in "ab"
    )

    def results():
        sums = [algebra.add(a, b), algebra.add(a, b, -0.3), algebra.subtract(a, b)]
        return [*sums, algebra.multiply(a, 0.3)], algebra.norm(a)

    plain, size = results()
    monkeypatch.setattr(algebra, "_on_gpu", lambda a: True)
    together, same_size = results()
    for one, other in zip(together, plain, strict=True):
        assert list(one) == list(other)
        for name, tensor in other.items():
            torch.testing.assert_close(one[name], tensor, rtol=1e-6, atol=1e-7)
    assert same_size == pytest.approx(size, rel=1e-7)
