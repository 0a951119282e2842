"""The bounds' numbers stand beside the paper's."""

import pandas as pd


def test_bounds_put_the_papers_numbers_beside_ours(finished):
    numbers = pd.read_parquet(finished / "bounds/numbers.parquet")
    first = numbers.query("table == 'table1' and quantity == 'evaluations'").set_index("row")
    assert first.loc["gradient_norm<=G_SSM", "value"] == 16 * 64
    assert first.loc["gradient_norm<=G_SSM", "paper"] == 1_327_104
    only_paper = numbers[numbers["value"].isna() & numbers["paper"].notna()]
    assert only_paper["note"].str.startswith("not in this run").all()
    pngs = sorted(p.name for p in (finished / "bounds").glob("*.png"))
    assert len(pngs) == 9
    assert "gradient_norm<=G_SSM" in (finished / "bounds/summary.txt").read_text()
