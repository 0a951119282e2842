"""Random stable layers."""

import numpy as np
import pytest

from fedscan.theory.constants import spectral_norms


def random_layer(rng, d, n, scale=0.5, gamma=0.5):
    return {
        "W_delta": rng.normal(0, scale, (d, d)),
        "W_B": rng.normal(0, scale, (n, d)),
        "W_C": rng.normal(0, scale, (n, d)),
        "A": -gamma * (1 + 0.25 * np.abs(rng.normal(size=n))),
    }


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def norms_of(layer):
    return spectral_norms(**layer)
