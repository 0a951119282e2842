"""Stability quantities against SVD and by hand."""

import math

import pytest
import torch

from fedscan.measure.stability import block_spectral_norms, realised_decay


def test_decay_by_hand():
    dt = torch.tensor([[[0.1, 1.0], [0.2, 2.0], [0.4, 3.0]]])
    first, second = realised_decay(dt, torch.tensor([-1.0, -0.5]))
    assert first == pytest.approx([math.exp(-0.4), math.exp(-0.2), math.exp(-0.1)])
    assert second == pytest.approx([math.exp(-1.5), math.exp(-1.0), math.exp(-0.5)])


def test_spectral_norms_equal_singular_values():
    weight = torch.randn(40, 12, generator=torch.Generator().manual_seed(0))
    blocks = {"tall": (0, 30), "wide": (30, 8), "row": (38, 2)}
    found = block_spectral_norms(weight, blocks)
    for name, (first, count) in blocks.items():
        exact = torch.linalg.svdvals(weight[first : first + count].double())[0]
        assert found[name] == pytest.approx(float(exact), rel=1e-12)
    assert block_spectral_norms(torch.zeros(3, 4), {"zero": (0, 3)}) == {"zero": 0.0}
