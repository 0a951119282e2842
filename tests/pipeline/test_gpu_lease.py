"""Places on GPUs: never more jobs than places, in order, given back however a job ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.pipeline.gpu_lease import VISIBLE, gpu_lease, lease

HOLDER = """
import json, os, sys, time
from fedscan.pipeline.gpu_lease import gpu_lease
folder, gpus, each, seconds, out = sys.argv[1:]
with gpu_lease(folder, json.loads(gpus), int(each), print) as gpu:
    start = time.time()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    time.sleep(float(seconds))
    with open(out, "a") as file:
        file.write(json.dumps([gpu, start, time.time()]) + "\\n")
"""


def holder(tmp_path, gpus, each, seconds):
    arguments = [str(tmp_path / "lock"), json.dumps(gpus), str(each), str(seconds)]
    environment = {k: v for k, v in os.environ.items() if k != VISIBLE}
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments, str(tmp_path / "held")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def held(tmp_path):
    return [json.loads(line) for line in (tmp_path / "held").read_text().splitlines()]


def most_at_once(spans):
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    count = most = 0
    for _, change in edges:
        count += change
        most = max(most, count)
    return most


@pytest.mark.parametrize(("gpus", "each"), [([0], 1), ([0, 1], 1), ([0], 2)])
def test_never_more_jobs_than_places(tmp_path, gpus, each):
    jobs = [holder(tmp_path, gpus, each, 0.3) for _ in range(5)]
    assert [job.wait(60) for job in jobs] == [0] * 5
    rows = held(tmp_path)
    assert {gpu for gpu, _, _ in rows} == {str(gpu) for gpu in gpus}
    for gpu in gpus:
        spans = [(start, end) for name, start, end in rows if name == str(gpu)]
        assert most_at_once(spans) <= each


def test_a_killed_job_gives_its_place_back(tmp_path):
    first = holder(tmp_path, [0], 1, 60)
    assert "GPU 0" in first.stdout.readline()
    second = holder(tmp_path, [0], 1, 0)
    assert "waiting for one of 1 places" in second.stdout.readline()
    first.send_signal(signal.SIGKILL)
    assert second.wait(30) == 0


def test_free_gpus_are_taken_before_shared_ones(tmp_path):
    lock = str(tmp_path / "lock")
    with gpu_lease(lock, [0, 1], 2, print) as first:
        second = holder(tmp_path, [0, 1], 2, 0)
        assert second.wait(60) == 0
    assert {first, held(tmp_path)[0][0]} == {"0", "1"}
    assert VISIBLE not in os.environ


def test_a_job_on_the_cpu_needs_no_place_and_a_missing_gpu_is_named(monkeypatch):
    monkeypatch.delenv(VISIBLE, raising=False)
    places = {"gpus": None, "jobs_per_gpu": 1}
    with lease("cpu", places, print):
        assert VISIBLE not in os.environ
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        with pytest.raises(ValueError, match="no GPU"):
            lease("cuda", places, print)


def test_the_schedulers_choice_is_obeyed(tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "3")
    said = []
    with gpu_lease(str(tmp_path / "lock"), [0], 1, said.append) as gpu:
        assert gpu == "3"
    assert not (tmp_path / "lock").exists()
    assert "chosen by the scheduler" in said[0]
    assert os.environ[VISIBLE] == "3"
