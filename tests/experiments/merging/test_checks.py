"""Checks of merging find what is wrong."""

from fedscan.io import parquet
from tests.experiments.merging import tiny
from tests.experiments.merging.made import TABLES, checked


def test_checks_pass_on_finished_merges_and_find_what_is_wrong(copy):
    table = parquet.read_frame(copy / "merges/base=tiny/seed=0/merges.parquet", TABLES["merges"])
    code = str(table["code_hash"].iloc[0])
    assert all(passed for passed, _ in checked(copy, code).values())
    older = checked(copy, "another")
    assert not older["merging results of the present code"][0]
    accepted = checked(copy, "another", rerun_on_code_change=False)
    assert accepted["merging results of the present code"][0]
    assert "rows of other code" in accepted["merging results of the present code"][1][0]
    more = tiny.merge_settings()["operators"] | {"task_arithmetic": {"scales": [9.0]}}
    assert not checked(copy, code, operators=more)["every merge on every task"][0]
    model = next(copy.rglob("models/**/*.safetensors"))
    model.write_bytes(model.read_bytes()[:-1])
    changed = checked(copy, code)["specialists' models are those of the table"]
    assert not changed[0]
    assert model.name in " ".join(changed[1])
