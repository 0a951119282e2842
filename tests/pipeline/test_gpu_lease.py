"""Places on GPUs: never more jobs than places, in order, given back however a job ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.pipeline import gpus
from fedscan.pipeline.gpu_lease import VISIBLE, Gpu, allowed, gpu_lease, lease

HOLDER = """
import json, os, sys, time
from fedscan.pipeline.gpu_lease import Gpu, gpu_lease
folder, gpus, each, seconds, out = sys.argv[1:]
gpus = [Gpu(str(gpu), str(gpu)) for gpu in json.loads(gpus)]
with gpu_lease(folder, gpus, int(each), print) as gpu:
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
    with gpu_lease(lock, [Gpu("0", "0"), Gpu("1", "1")], 2, print) as first:
        second = holder(tmp_path, [0, 1], 2, 0)
        assert second.wait(60) == 0
    assert {first, held(tmp_path)[0][0]} == {"0", "1"}
    assert VISIBLE not in os.environ


TWO = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa-1)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb-2)
"""
SPLIT = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-cccc-3)
  MIG 3g.20gb     Device  1: (UUID: MIG-GPU-aaaa-1/2/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb-2)
"""
PLACES = {"gpus": None, "jobs_per_gpu": 1}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes a machine: what nvidia-smi prints there, and its environment."""

    def made(listing, code=0, **environment):
        command = tmp_path / "bin/nvidia-smi"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\ncat <<'END'\n{listing}END\nexit {code}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
        for name in (VISIBLE, "SLURM_JOB_ID"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    return made


def names(configured=None):
    return [gpu.name for gpu in allowed(configured)]


def test_all_gpus_are_named_by_uuid_and_a_split_card_by_its_parts(machine):
    machine(TWO)
    assert names() == ["GPU-aaaa-1", "GPU-bbbb-2"]
    machine(SPLIT)
    assert names() == ["MIG-cccc-3", "MIG-GPU-aaaa-1/2/0", "GPU-bbbb-2"]
    assert all("/" not in gpu.lock for gpu in allowed(None))


@pytest.mark.parametrize(
    ("configured", "found"),
    [
        ([1], ["GPU-bbbb-2"]),
        ([0], ["MIG-cccc-3", "MIG-GPU-aaaa-1/2/0"]),
        (["GPU-bbbb"], ["GPU-bbbb-2"]),
        (["MIG-cccc-3", 1, 1], ["MIG-cccc-3", "GPU-bbbb-2"]),
    ],
)
def test_configured_gpus_are_indices_or_uuids(machine, configured, found):
    machine(SPLIT)
    assert names(configured) == found


@pytest.mark.parametrize("gpu", [2, "GPU-eeee"])
def test_a_configured_gpu_that_is_not_there_is_named(machine, gpu):
    machine(TWO)
    with pytest.raises(ValueError, match=rf"workflow.gpus names {gpu}.* 1 \(GPU-bbbb-2\)"):
        lease("cuda", {"gpus": [gpu], "jobs_per_gpu": 1}, print)


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("0,1", ["0", "1"]),
        ("1", ["1"]),
        ("GPU-bbbb, MIG-cccc-3", ["GPU-bbbb", "MIG-cccc-3"]),
        ("1,-1,0", ["1"]),  # as CUDA reads it
        ("0,0", ["0"]),
    ],
)
def test_visible_devices_are_a_set_of_places(machine, visible, found):
    machine(SPLIT, **{VISIBLE: visible})
    assert names() == found
    assert names([0]) == found  # the choice made outside comes first


@pytest.mark.parametrize("visible", ["", " ", "-1", "NoDevFiles"])
def test_no_visible_device_is_an_error_and_no_wait(machine, visible):
    machine(TWO, **{VISIBLE: visible})
    with pytest.raises(ValueError, match=r"^training.device is cuda and CUDA_VISIBLE_DEVICES="):
        lease("cuda", PLACES, print)


def test_several_visible_devices_are_shared_out_one_by_one(machine):
    machine(TWO, **{VISIBLE: "0,1"})
    with lease("cuda", PLACES, print) as first:
        machine(TWO, **{VISIBLE: "0,1"})  # as another process sees it
        with lease("cuda", PLACES, print) as second:
            assert [first, second] == ["0", "1"]
            assert os.environ[VISIBLE] == "1"
        assert os.environ[VISIBLE] == "0,1"


def test_a_gpu_has_one_lock_by_whatever_name(machine):
    machine(TWO)
    locks = {allowed(None)[1].lock, allowed([1])[0].lock, allowed(["GPU-bb"])[0].lock}
    for visible in ("1", "GPU-bbbb-2", "GPU-bbbb"):
        machine(TWO, **{VISIBLE: visible})
        locks.add(allowed(None)[0].lock)
    assert locks == {"GPU-bbbb-2"}


def test_every_slurm_job_may_call_its_gpu_0(machine):
    machine("", code=9, SLURM_JOB_ID="7", **{VISIBLE: "0"})
    first = allowed(None)[0].lock
    machine("", code=9, SLURM_JOB_ID="8", **{VISIBLE: "0"})
    assert allowed(None)[0].lock != first


def test_a_driver_that_fails_or_hangs_is_one_line(machine, tmp_path, monkeypatch):
    machine("NVIDIA-SMI has failed because it couldn't talk to the driver.\n", code=9)
    with pytest.raises(ValueError, match="is cuda and 'nvidia-smi -L' failed: NVIDIA-SMI has"):
        lease("cuda", PLACES, print)
    machine("")
    with pytest.raises(ValueError, match="this machine has no GPU"):
        lease("cuda", PLACES, print)
    (tmp_path / "bin/nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(gpus, "LIMIT_SECONDS", 0.2)
    with pytest.raises(ValueError, match="did not answer"):
        lease("cuda", PLACES, print)


def test_without_nvidia_smi_cuda_counts_the_device_files_from_0(machine, monkeypatch):
    machine(TWO)
    monkeypatch.setenv("PATH", "/nowhere")
    found = [Path("/dev/nvidia3"), Path("/dev/nvidia5")]
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter(found))
    assert names() == ["0", "1"]
    assert names(["GPU-aaaa-1"]) == ["GPU-aaaa-1"]


def test_kernels_that_need_a_gpu_take_a_place_too(machine):
    machine(TWO)
    with lease("triton", PLACES, print, "synthetic.evaluation.kernels") as gpu:
        assert os.environ[VISIBLE] == gpu == "GPU-aaaa-1"
    machine("")
    with pytest.raises(ValueError, match="^synthetic.evaluation.kernels is triton and this"):
        lease("triton", PLACES, print, "synthetic.evaluation.kernels")


def test_a_job_that_waits_leaves_at_once_when_told_to(tmp_path):
    script = """
import os, sys
from fedscan.pipeline.gpu_lease import Gpu, gpu_lease
from fedscan.pipeline.runner import job
with job(sys.argv[2], echo=True) as report, gpu_lease(sys.argv[1], [Gpu("0", "0")], 1, report):
    pass
"""
    lock = str(tmp_path / "lock")
    with gpu_lease(lock, [Gpu("0", "0")], 1, print):
        waiting = []
        for number in range(2):  # one waits for the place, the other for its turn
            arguments = [sys.executable, "-c", script, lock, str(tmp_path / f"{number}.log")]
            waiting.append(subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True))
            said = waiting[-1].stderr.readline()
            assert ("waiting for one of 1 places" if number == 0 else "asked for a GPU") in said
            assert number or f"taken by process {os.getpid()}" in said
        for process in reversed(waiting):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 75
            process.stderr.close()


def test_a_job_on_the_cpu_needs_no_place(monkeypatch):
    monkeypatch.delenv(VISIBLE, raising=False)
    with lease("cpu", PLACES, print):
        assert VISIBLE not in os.environ
