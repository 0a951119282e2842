"""Teachers as files: their search, their bytes, and what changes them."""

import pandas as pd
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from fedscan.experiments.teachers import teachers
from fedscan.experiments.teachers.datasets import read_datasets
from fedscan.models.selective_ssm import cpu
from tests import jobs
from tests.experiments.bounds.made import (
    PATH,
    RHOS,
    SHAPE,
    SHARED,
    contents,
    evaluate,
    make_teachers,
    train,
)


def test_teachers_are_written_with_their_search(finished):
    folder = finished / "teachers" / PATH
    rows = pd.read_parquet(folder / "teachers.parquet")
    tried = pd.read_parquet(folder / "candidates.parquet")
    assert rows["rho"].tolist() == RHOS
    for row in rows.to_dict("records"):
        mine = tried[tried["rho"] == row["rho"]]
        assert mine["accepted"].sum() == 1
        assert mine["candidate"].max() == row["candidates"]
        refused = mine[~mine["accepted"] & (mine["sample"] == "full")]
        assert (refused["refused"] != "").all()
    found = read_datasets(folder, SHAPE, 32)
    assert found[0.5].train.shape == (256, 32)
    teacher = found[0.95]
    predicted = cpu.predict(teacher.params, teacher.test, SHAPE, teacher.temperature)
    assert predicted.losses.mean() == teacher.test_nll
    # Other readers take the folders' keys as columns.
    whole = pads.dataset(
        sorted((finished / "teachers").rglob("teachers.parquet")),
        partitioning="hive",
        partition_base_dir=str(finished),
    ).to_table()
    assert {"D", "N"} <= set(whole.column_names)


def test_the_same_bytes_every_time(finished, tmp_path):
    make_teachers(tmp_path / "teachers" / PATH)
    train(tmp_path)
    evaluate(tmp_path)
    again = contents(tmp_path)
    first = contents(finished)
    assert again
    assert all(first[name] == data for name, data in again.items())


@pytest.mark.parametrize("what", ["token", "parameter"])
def test_a_changed_byte_is_named(copy, what):
    folder = copy / "teachers" / PATH
    name = "teacher_sequences" if what == "token" else "teachers"
    table = pq.read_table(folder / f"{name}.parquet", partitioning=None)
    rows = table.to_pylist()
    row = rows[-1]
    key = "tokens" if what == "token" else "parameters"
    row[key][0] = (row[key][0] + 1) % 4
    changed = table.from_pylist(rows, schema=table.schema)
    pq.write_table(changed, folder / f"{name}.parquet")
    with pytest.raises(ValueError, match=rf"{name}\.parquet: \w+ of D=4, N=4, rho=0\.95 changed"):
        evaluate(copy)


def test_no_teacher_is_an_error_that_says_why(tmp_path):
    settings = SHARED | {"train_sequences": 256, "test_sequences": 64, "burn_in": 0, "code": "c"}
    with pytest.raises(ValueError, match=r"no teacher for D=4, N=4, rho=0\.5: 39 candidates"):
        jobs.run(teachers, settings | {"sequence_length": 2, "rhos": [0.5]}, tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))
