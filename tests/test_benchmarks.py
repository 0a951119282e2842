"""Benchmarks run: the GPU's parts on the CPU at a tiny size, and the peers that are installed."""

import json
import subprocess
import sys

import numpy as np
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


@pytest.mark.slow
def test_peers_do_the_same_work(tmp_path):
    found = {}
    for peer in ("fedscan", "plain", "transformers"):
        command = [sys.executable, "benchmarks/peers.py", "--one", peer, "tiny-4", "--double"]
        done = subprocess.run([*command, "--into", tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        with np.load(tmp_path / "weights.npz") as weights:
            found[peer] = dict(weights)
    for name, expected in found["fedscan"].items():
        np.testing.assert_allclose(found["plain"][name], expected, rtol=0, atol=1e-12)
        # transformers computes parts in float32 whatever the weights are; training moves by 1e-2.
        np.testing.assert_allclose(found["transformers"][name], expected, rtol=0, atol=1e-5)


def test_the_depth_iteration_is_compared_with_its_products():
    command = [sys.executable, "benchmarks/consensus.py", "--small", "--draws", "1", "--depth", "4"]
    done = subprocess.run([*command, "--repeats", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(": ratio" in line for line in lines) == 2
    assert "peak memory" in lines[-1]


def test_sessas_loop_is_compared():
    command = [sys.executable, "benchmarks/sessa.py", "--tiny", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sessa / attention (bar 1.6)" in done.stdout
    largest = [float(line.split()[-4]) for line in done.stdout.splitlines() if "largest" in line]
    # Numbers per token, whatever the length: memory is linear.
    assert largest[0] == largest[1]
