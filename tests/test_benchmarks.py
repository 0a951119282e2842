"""The GPU benchmark runs: every part on the CPU at a tiny size, so that no GPU time is lost."""

import json
import subprocess
import sys

import pytest


def part(name, folder):
    command = [sys.executable, "benchmarks/gpu.py", name, "--device", "cpu", "--tiny"]
    done = subprocess.run(
        [*command, "--rounds", "2", "--out", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = folder.glob("*.json")
    found = json.loads(written.read_text())
    assert found["failures"] == []
    assert found["versions"]["torch"]
    return {row["quantity"]: row["value"] for row in found["rows"]}


def test_model_comparison_runs(tmp_path):
    rows = part("model", tmp_path)
    errors = [v for k, v in rows.items() if "float32: relative error of gradient" in k]
    assert len(errors) == 2
    assert max(errors) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["environment", "selective", "round", "step", "run", "concurrency", "profile"]
)
def test_part_runs(tmp_path, name):
    rows = part(name, tmp_path)
    assert rows["seconds of this part"] > 0
