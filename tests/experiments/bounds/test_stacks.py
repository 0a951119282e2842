"""Stacks of layers stay within their bounds."""

import numpy as np
import pandas as pd


def test_stacks_are_evaluated_without_violation(finished):
    rows = pd.read_parquet(finished / "stacks/stacks.parquet")
    assert len(rows) == 2 * (1 + 2)
    assert (rows["violations"] == 0).all()
    assert (rows["checks"] == 4 * 2 + 2 + 2 * rows["depth"]).all()
    assert (rows["G_realised"] <= rows["G"]).all()
    one = rows[rows["depth"] == 1]
    assert np.allclose(one["G"], one["G_realised"], rtol=1)
    assert np.allclose(one["G"], one["G_common"])
    for row in rows.to_dict("records"):
        assert len(row["input_bounds"]) == row["depth"]
        assert row["input_bounds"][0] == 1.0
        assert all(np.array(row["input_maxima"]) <= np.array(row["input_bounds"]))
