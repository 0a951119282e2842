"""Figures of the claims: what they draw keeps to its bounds."""

import numpy as np
import pandas as pd
import pytest

from fedscan.experiments.sessa import claims_retrieval
from fedscan.experiments.sessa.theory_figures import (
    decay_theory,
    random_decay,
    retrieval_profiles,
)
from fedscan.theory.feedback import decay_bound


@pytest.mark.parametrize("gain", [0.3, 0.6])
def test_random_routing_is_below_the_bound_that_is_drawn(gain):
    lags, largest, c2 = random_decay(gain)
    assert (largest > 0).all()
    assert (largest <= decay_bound(gain, c2, lags)).all()
    assert random_decay(0.9)[2] * 0.9 > 1  # of it nothing is claimed


def test_the_figure_has_a_bound_only_where_one_is_claimed():
    def dotted(gain):
        return sum(line.get_linestyle() == ":" for line in decay_theory([gain]).axes[0].lines)

    # Uniform and random routing; for 0.9 the latter has none.
    assert (dotted(0.3), dotted(0.9)) == (2, 1)
    assert not decay_theory([]).axes[0].lines


def test_profiles_stand_beside_the_envelopes():
    rows = pd.DataFrame(list(claims_retrieval.retrieval_rows([[0.5, 2]])))
    (axis,) = retrieval_profiles(rows).axes
    (sessa, attention, mamba) = axis.lines
    far = rows[(rows["level"] == "kernel") & (rows["horizon"] == 900)]
    np.testing.assert_array_equal(sessa.get_ydata(), far["margin"])
    # Frozen, where the others fall.
    assert sessa.get_ydata()[-1] > 0.9 * sessa.get_ydata().max()
    for other in (attention, mamba):
        assert other.get_ydata()[-1] < 0.5 * other.get_ydata().max()
    assert not retrieval_profiles(rows[:0]).axes[0].lines
