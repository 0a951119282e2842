"""Merging's tables stand beside the paper's."""

import pandas as pd
import pytest

from fedscan.io import parquet
from tests.experiments.merging.made import TABLES, merge, report


def test_tables_stand_beside_the_papers(copy):
    report(copy)
    table = parquet.read_frame(copy / "tables/numbers.parquet", TABLES["numbers"])
    found = table.set_index(["table", "row", "quantity"])
    row = found.loc[("table29", "Mamba2-130M average epochs=1", "accuracy_mean")]
    assert row["paper"] == 34.4
    assert "synthetic tasks, tiny of 1,000 parameters" in row["note"]
    merged = merge(copy)["merges"].query("operator == 'average' and mu == 0 and epoch == 1")
    assert row["value"] == pytest.approx(merged["accuracy"].mean())
    sweep = merge(copy)["merges"].query("operator == 'task_arithmetic' and mu == 0 and epoch == 3")
    best = sweep.groupby("scale")["accuracy"].mean()
    row = found.loc[("table29", "Mamba2-130M task-arithmetic epochs=3", "lambda")]
    assert row["value"] == best.idxmax()
    assert "the paper: real tasks" in row["note"]
    missing = found.loc[("table33", "Mamba2-130M average mu=0.001 epochs=4", "accuracy_mean")]
    assert pd.isna(missing["value"])
    assert missing["paper"] == 30.6
    assert "Mamba2-370M" not in "".join(table["row"])
    text = (copy / "tables/summary.txt").read_text()
    assert "specialists, own task, epoch 3" in text
    for name in ("scales", "tasks", "displacements"):
        assert (copy / f"tables/{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (copy / f"tables/{name}.svg").read_text().startswith("<?xml")
