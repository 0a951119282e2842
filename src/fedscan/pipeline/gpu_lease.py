"""Which GPU a job may use: Snakemake counts GPUs and assigns none.

Each GPU has a fixed number of places; a job holds one as a locked file while it runs and waits for
one in the order of asking. The kernel gives a lock back when its process ends, however it ends.
"""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from fedscan.pipeline.stage import Log

WAIT_SECONDS = 0.5
VISIBLE = "CUDA_VISIBLE_DEVICES"


def lease(
    device: str, places: Mapping[str, Any], report: Log, section: str = "training"
) -> contextlib.AbstractContextManager[object]:
    """Hold a place on a GPU of this machine, if the job runs on one.

    Args:
        device: the section's device.
        places: ``gpus`` and ``jobs_per_gpu`` of section ``workflow``.
        report: told what is waited for.
        section: section of the configuration that names the device.

    Returns:
        To be entered before CUDA is used; does nothing on the CPU.

    Raises:
        ValueError: if the machine has no GPU.
    """
    if device != "cuda":
        return contextlib.nullcontext()
    found = [int(p.name.removeprefix("nvidia")) for p in Path("/dev").glob("nvidia[0-9]*")]
    gpus = places["gpus"] or sorted(found)
    if not gpus and VISIBLE not in os.environ:
        raise ValueError(f"{section}.device is cuda and this machine has no GPU (/dev/nvidia*)")
    folder = Path(tempfile.gettempdir(), f"fedscan-gpus-{os.getuid()}")
    return gpu_lease(str(folder), gpus, places["jobs_per_gpu"], report)


@contextlib.contextmanager
def gpu_lease(folder: str, gpus: Sequence[int], jobs_per_gpu: int, report: Log) -> Iterator[str]:
    """Hold a place on a GPU; to be entered before CUDA is used.

    A scheduler that has already chosen (``CUDA_VISIBLE_DEVICES`` is set, as under Slurm) is obeyed.

    Args:
        folder: for the lock files; on a file system of this machine.
        gpus: indices of the GPUs that may be used.
        jobs_per_gpu: places on each.
        report: told what is waited for.

    Yields:
        The value of ``CUDA_VISIBLE_DEVICES`` while the place is held.
    """
    if chosen := os.environ.get(VISIBLE):
        report(f"GPU {chosen}, chosen by the scheduler")
        yield chosen
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    # Places of different GPUs first, so that two jobs do not share one while another is idle.
    places = [(gpu, place) for place in range(jobs_per_gpu) for gpu in gpus]
    with contextlib.ExitStack() as stack:
        gpu = _wait(folder, places, stack, report)
        report(f"GPU {gpu}")
        os.environ[VISIBLE] = str(gpu)
        try:
            yield str(gpu)
        finally:
            del os.environ[VISIBLE]


def _wait(
    folder: str, places: Sequence[tuple[int, int]], stack: contextlib.ExitStack, report: Log
) -> int:
    # Whoever holds the queue tries all places; the others wait for the queue in turn.
    with open(Path(folder, "queue.lock"), "w") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        told = False
        while True:
            for gpu, place in places:
                with contextlib.ExitStack() as trial:
                    name = Path(folder, f"gpu{gpu}-{place}.lock")
                    if _locked(trial.enter_context(name.open("w"))):
                        stack.push(trial.pop_all())
                        return gpu
            if not told:
                report(f"waiting for one of {len(places)} places on {folder}")
                told = True
            time.sleep(WAIT_SECONDS)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
