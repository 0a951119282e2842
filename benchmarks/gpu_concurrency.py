"""The part of ``gpu.py`` that asks whether one GPU gains from several clients or runs at once."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu_bench as gb
import torch

WINDOW = 4.0


def concurrency(bench):
    """Steps per second of 1, 2, 4 clients on streams, and of 1, 2, 4 processes."""
    counts = (1, 2) if bench.tiny else (1, 2, 4)
    for count in counts:
        bench.attempt(f"{count} streams", _streams, bench, count)
    if bench.device == "cuda":
        torch.cuda.empty_cache()
    for count in counts:
        bench.attempt(f"{count} processes", _processes, bench, count)


def _precision(bench):
    return "float32" if bench.device == "cpu" else "float16"


def _streams(bench, count):
    """Clients side by side in one process, each with a recorded step and a stream of its own."""
    size = gb.paper(4, 64, bench.tiny)
    problem = gb.problem(size, _precision(bench), bench.device, bench.kernels)
    algorithm = gb.algorithm("fedavg", size.shape)
    start = gb.context(problem, algorithm)
    with torch.no_grad():
        recordings = [
            gb.phase("cuda_graph", problem, algorithm, bench.device).prepared(start, k % 2)
            for k in range(count)
        ]
    gb.wait(bench.device)
    streams = [torch.cuda.Stream() if bench.device == "cuda" else None for _ in recordings]

    def steps():
        for _ in range(size.local_steps):
            for recording, stream in zip(recordings, streams, strict=True):
                with torch.no_grad(), torch.cuda.stream(stream):
                    recording.replay()

    spent = gb.seconds(steps, bench.device, WINDOW / 2)
    bench.add(f"{count} clients on streams", count * size.local_steps / spent, "steps/s")


def _processes(bench, count):
    """Runs side by side; all start measuring at once."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--device", bench.device, "--kernels", bench.kernels, "--out", folder]
        flags += ["--tiny"] * bench.tiny
        script = str(Path(__file__).with_name("gpu.py"))
        started = [
            subprocess.Popen([sys.executable, script, "worker", *flags, "--index", str(index)])
            for index in range(count)
        ]
        try:
            end = time.perf_counter() + 90
            while len(list(Path(folder).glob("ready-*"))) < count:
                if time.perf_counter() > end or any(p.poll() not in (None, 0) for p in started):
                    raise RuntimeError("a worker did not start")
                time.sleep(0.05)
            Path(folder, "go").touch()
            for process in started:
                process.wait(timeout=60)
        finally:
            for process in started:
                process.kill()
        rates = [float(Path(folder, f"rate-{index}").read_text()) for index in range(count)]
    bench.add(f"{count} processes", sum(rates), "steps/s")


def worker(bench, index):
    """One run: get ready, wait for the others, measure steps per second."""
    size, folder = gb.paper(4, 64, bench.tiny), Path(bench.folder)
    problem = gb.problem(size, _precision(bench), bench.device, bench.kernels)
    algorithm = gb.algorithm("fedavg", size.shape)
    phase = gb.phase("cuda_graph", problem, algorithm, bench.device)
    start = gb.context(problem, algorithm)
    phase(problem, algorithm, start, 0)
    Path(folder, f"ready-{index}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.002)
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < (0.5 if bench.tiny else WINDOW):
        phase(problem, algorithm, start, 0)
        steps += size.local_steps
    rate = steps / (time.perf_counter() - begun)
    Path(folder, f"rate-{index}").write_text(str(rate))
