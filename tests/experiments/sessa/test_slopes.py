"""Jacobians: both ways are the same, and those of finite differences."""

import numpy as np
import torch

from fedscan.experiments.sessa.slopes import batched, one_by_one


def run(x):
    return torch.stack([x[0] * x[1], x[1].sin(), torch.zeros_like(x[0])], -1)


def test_both_ways_are_the_differences():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 4)))
    found = batched(run, x)
    assert found.shape == (4, 3, 2, 4)
    torch.testing.assert_close(found, one_by_one(run, x), rtol=0, atol=0)
    step = 1e-6
    for row in range(2):
        for column in range(4):
            by = torch.zeros_like(x)
            by[row, column] = step
            slope = (run(x + by) - run(x - by)) / (2 * step)
            torch.testing.assert_close(found[:, :, row, column], slope, rtol=0, atol=1e-8)


def test_what_does_not_enter_has_slope_0():
    x = torch.ones(3, dtype=torch.float64)
    assert (batched(lambda u: u[:1] * 0 + torch.ones(1, dtype=u.dtype), x) == 0).all()
