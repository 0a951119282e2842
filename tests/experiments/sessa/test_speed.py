"""The stage that measures the machine: its rows, and what it counts."""

import torch

from fedscan.experiments.sessa import plan
from fedscan.experiments.sessa.tables import SPEED
from fedscan.io import parquet
from fedscan.measure.largest_tensor import LargestTensor
from tests.experiments.sessa import tiny


def test_rows(tmp_path):
    settings = plan.sessa_speed(tiny.config(speed={"lengths": [16, 64], "repeats": 1}))
    tiny.run("speed", settings, tmp_path / "sessa/speed", tmp_path)
    rows = parquet.read_frame(tmp_path / "sessa/speed/sessa_speed.parquet", SPEED)
    assert rows["mixer"].tolist() == ["sessa", "mha"] * 2
    assert (rows[["forward", "backward"]] > 0).all().all()
    sessa = rows[rows["mixer"] == "sessa"]["peak_numbers"].tolist()
    assert sessa[1] > sessa[0] >= 16 * 16


def test_the_largest_tensor():
    with LargestTensor() as seen:
        x = torch.ones(3, 5)
        (x @ torch.ones(5, 7)).sum()
    assert seen.numbers == 35
