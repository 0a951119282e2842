"""Which GPU a job may use: Snakemake counts GPUs and assigns none.

Each GPU has a fixed number of places; a job holds one as a locked file while it runs and waits for
one in the order of asking. The kernel gives a lock back when its process ends, however it ends.
"""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from fedscan.pipeline import preemption
from fedscan.pipeline.gpus import Card, cards

WAIT_SECONDS = 0.5
VISIBLE = "CUDA_VISIBLE_DEVICES"
# Values of the configuration that mean work on a GPU.
ON_GPU = ("cuda", "triton")


Report = Callable[[str], None]


class Gpu(NamedTuple):
    """A GPU, or a part of one, that a job can be told to use."""

    name: str  # what CUDA_VISIBLE_DEVICES is set to
    lock: str  # tells it from every other one of this machine; the head of a file name


def lease(
    device: str, places: Mapping[str, Any], report: Report, key: str = "training.device"
) -> contextlib.AbstractContextManager[object]:
    """Hold a place on a GPU of this machine, if the job runs on one.

    Args:
        device: value of ``key``: a device, or a kind of kernels.
        places: ``gpus`` and ``jobs_per_gpu`` of section ``workflow``.
        report: told what is waited for.
        key: the configuration's key that asks for the GPU.

    Returns:
        To be entered before CUDA is used; does nothing on the CPU.

    Raises:
        ValueError: if the machine has no such GPU, or hides all it has; if ``nvidia-smi`` fails.
    """
    if device not in ON_GPU:
        return contextlib.nullcontext()
    try:
        gpus = allowed(places["gpus"])
    except ValueError as error:
        raise ValueError(f"{key} is {device} and {error}") from None
    folder = Path(tempfile.gettempdir(), f"fedscan-gpus-{os.getuid()}")
    return gpu_lease(str(folder), gpus, places["jobs_per_gpu"], report)


def allowed(configured: Sequence[int | str] | None) -> list[Gpu]:
    """List the GPUs that jobs may use.

    A choice made outside, ``CUDA_VISIBLE_DEVICES``, comes first: a scheduler's or a user's, one GPU
    or several. Then the configuration's, then all of the machine.

    Args:
        configured: key ``workflow.gpus``: indices as ``nvidia-smi`` counts, UUIDs of GPUs or of
            MIG devices; None for all.

    Returns:
        At least one; a card split by MIG counts as its parts.

    Raises:
        ValueError: if there is none, or not the one named; if ``nvidia-smi`` fails.
    """
    chosen = os.environ.get(VISIBLE)
    if chosen is not None:
        names = _visible(chosen)
        try:
            found = cards()
        except ValueError:
            found = []  # only locks are named by it; CUDA will say what is wrong with the GPU
        return [Gpu(name, _lock(name, found)) for name in names]
    found = cards()
    if not found:
        raise ValueError("this machine has no GPU (nvidia-smi, /dev/nvidia*)")
    if configured is None:
        names = [name for card in found for name in card.devices]
    else:
        names = [name for gpu in configured for name in _configured(gpu, found)]
    return [Gpu(name, _lock(name, found)) for name in dict.fromkeys(names)]


def _visible(chosen: str) -> list[str]:
    """Return what CUDA sees of a list: all up to the first entry that names no device."""
    names: list[str] = []
    for entry in chosen.split(","):
        name = entry.strip()
        if not name or name.startswith("-") or name == "NoDevFiles":
            break
        names.append(name)
    if not names:
        raise ValueError(f"{VISIBLE}={chosen!r} hides every GPU; unset it, or name one")
    return list(dict.fromkeys(names))


def _configured(gpu: int | str, found: Sequence[Card]) -> Sequence[str]:
    if isinstance(gpu, int):
        if gpu < len(found):
            return found[gpu].devices
    elif all(card.name.isdecimal() for card in found):
        return (gpu,)  # without nvidia-smi no UUID is known; CUDA will say if this one is not there
    else:
        for card in found:
            if card.name.startswith(gpu):
                return card.devices
            if part := [device for device in card.devices if device.startswith(gpu)]:
                return part
    there = ", ".join(f"{card.index} ({', '.join(card.devices)})" for card in found)
    raise ValueError(f"workflow.gpus names {gpu}, which this machine does not have; it has {there}")


def _lock(name: str, found: Sequence[Card]) -> str:
    """Return one name for one GPU, whether it is called by its index, UUID or the head of that."""
    if name.isdecimal() and int(name) < len(found):
        name = found[int(name)].devices[0]
    else:
        known = (device for card in found for device in card.devices)
        name = next((device for device in known if device.startswith(name)), name)
    if name.isdecimal() and (job := os.environ.get("SLURM_JOB_ID")):
        name = f"{name}-of-{job}"  # every job may call its own GPU 0
    return name.replace("/", "-")  # the older names of MIG devices have some


@contextlib.contextmanager
def gpu_lease(folder: str, gpus: Sequence[Gpu], jobs_per_gpu: int, report: Report) -> Iterator[str]:
    """Hold a place on a GPU; to be entered before CUDA is used.

    Args:
        folder: for the lock files; on a file system of this machine.
        gpus: those that may be used, at least one.
        jobs_per_gpu: places on each.
        report: told what is waited for.

    Yields:
        The value of ``CUDA_VISIBLE_DEVICES`` while the place is held.

    Raises:
        ValueError: if there is no place to wait for.
    """
    # Places of different GPUs first, so that two jobs do not share one while another is idle.
    places = [(gpu, place) for place in range(jobs_per_gpu) for gpu in gpus]
    if not places:
        raise ValueError("there is no place on a GPU to wait for")
    Path(folder).mkdir(parents=True, exist_ok=True)
    before = os.environ.get(VISIBLE)
    with contextlib.ExitStack() as stack:
        with preemption.nothing_to_lose():
            gpu = _wait(folder, places, stack, report)
        report(f"GPU {gpu.name}")
        os.environ[VISIBLE] = gpu.name
        try:
            yield gpu.name
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def _wait(
    folder: str, places: Sequence[tuple[Gpu, int]], stack: contextlib.ExitStack, report: Report
) -> Gpu:
    # Whoever holds the queue tries all places; the others wait for the queue in turn.
    with open(Path(folder, "queue.lock"), "w") as queue:
        if not _locked(queue):
            report(f"waiting for jobs that asked for a GPU earlier ({folder})")
            fcntl.flock(queue, fcntl.LOCK_EX)
        told = False
        while True:
            for gpu, place in places:
                with contextlib.ExitStack() as trial:
                    name = Path(folder, f"gpu{gpu.lock}-{place}.lock")
                    if _locked(trial.enter_context(name.open("a+"))):
                        stack.push(trial.pop_all())
                        name.write_text(str(os.getpid()))
                        return gpu
            if not told:
                report(f"waiting for one of {len(places)} places on {folder}: {_holders(folder)}")
                told = True
            time.sleep(WAIT_SECONDS)


def _holders(folder: str) -> str:
    files = sorted(Path(folder).glob("gpu*.lock"))
    return ", ".join(f"{file.stem} was taken by process {file.read_text()}" for file in files)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
