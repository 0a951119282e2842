"""Numbers and figures of federated learners."""

import pandas as pd
import pytest

from tests.experiments.students.made import CELLS


def test_tables_and_figures(finished):
    folder = finished / "student_tables"
    numbers = pd.read_parquet(folder / "numbers.parquet")
    total = numbers.query("table == 'checks' and row == 'all'").set_index("quantity")["value"]
    assert total["runs"] == sum(map(len, CELLS.values()))
    assert total["violations"] == 0
    assert total["gradient_and_displacement_checks"] == total["runs"] * (2 * 3 + 4)
    exponent = numbers.query("row == 'reference radius in E'").iloc[0]
    assert exponent["value"] == pytest.approx(1.0)
    assert exponent["paper"] == 1.0
    tv = numbers.query("table == 'figure8b' and row == 'K=4 iid sequence'").iloc[0]
    assert 0 < tv["value"] <= 0.75**2
    assert len(list(folder.glob("*.png"))) == 6
    assert "figure6a" in (folder / "summary.txt").read_text()
