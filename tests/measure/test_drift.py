"""Drift by hand: updates (3, 4) and (-3, 4) with weights 1/4 and 3/4."""

import math

import pytest
import torch

from fedscan.measure.drift import drift


def vector(*values):
    return {"w": torch.tensor(values, dtype=torch.float64)}


def test_by_hand():
    updates, weights = [vector(3.0, 4.0), vector(-3.0, 4.0)], [0.25, 0.75]
    mean = vector(-1.5, 4.0)
    found = drift(updates, weights, mean, vector(0.0, 0.0), vector(0.0, 2.0))
    assert found.client_drift == pytest.approx((5.0, 5.0))
    size = math.sqrt(1.5**2 + 16)
    assert found.mean_update_norm == pytest.approx(size)
    cosines = ((-4.5 + 16) / (5 * size), (4.5 + 16) / (5 * size))
    assert found.cosine_to_mean == pytest.approx(cosines)
    # 0.25 * 4.5^2 + 0.75 * 1.5^2
    assert found.update_dispersion == pytest.approx(6.75)
    assert found.server_displacement == pytest.approx(2.0)


def test_identical_clients_have_no_dispersion_and_zero_updates_no_angle():
    same = [vector(1.0, 2.0)] * 3
    found = drift(same, [1 / 3] * 3, same[0], same[0], same[0])
    assert found.update_dispersion == 0.0
    assert found.cosine_to_mean == pytest.approx((1.0, 1.0, 1.0))
    zero = [vector(0.0, 0.0)] * 2
    assert drift(zero, [0.5, 0.5], zero[0], zero[0], zero[0]).cosine_to_mean == (0.0, 0.0)
