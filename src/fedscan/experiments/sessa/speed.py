"""Stage ``sessa_speed``: a block's forward and backward pass by length. Not part of ``all``.

It measures the machine: its table is the one of this room that differs from run to run.
"""

import statistics
import time
from typing import Any

import torch
from torch import Tensor

from fedscan.experiments.sessa.tables import SPEED
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.measure.largest_tensor import LargestTensor
from fedscan.models.sequence_model import LAYERS, Block
from fedscan.models.sequence_shape import SequenceShape
from fedscan.pipeline.machine import keep_freed_memory, require_device
from fedscan.pipeline.stage import Job


def run(job: Job) -> None:
    """Measure every mixer at every length, in turn, and write the table.

    Args:
        job: settings: ``shapes`` (mixer -> fields of ``SequenceShape``), ``lengths``, ``repeats``,
            ``device`` and ``threads``. Its folder receives sessa_speed.parquet.

    Raises:
        ValueError: if the configured device is not there.
    """
    settings = job.settings
    require_device(settings["device"], "sessa.training")
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    rows = []
    for length in settings["lengths"]:
        for mixer, fields in settings["shapes"].items():
            rows.append(_measured(mixer, SequenceShape(*fields), length, settings))
            job.report(f"{mixer}, {length} tokens: {1000 * rows[-1]['backward']:.1f} ms backward")
    parquet.write(
        job.folder / f"{SPEED.name}.parquet", SPEED, rows,
        {"settings": settings, "versions": versions()},
    )  # fmt: skip


def _measured(mixer: str, shape: SequenceShape, length: int, settings: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    block = Block(shape)
    with torch.no_grad():
        LAYERS[mixer].construct(block.layer, generator)
    block.to(settings["device"])
    x = torch.randn(1, length, shape.d_model, generator=generator).to(settings["device"])
    forward, backward = [], []
    for repeat in range(settings["repeats"] + 1):
        start = _now(x)
        out = block(x).sum()
        middle = _now(x)
        torch.autograd.grad(out, list(block.parameters()))
        if repeat:  # the first also warms up
            forward.append(middle - start)
            backward.append(_now(x) - middle)
    with LargestTensor() as seen:
        torch.autograd.grad(block(x).sum(), list(block.parameters()))
    return {
        "mixer": mixer,
        "length": length,
        "d_model": shape.d_model,
        "forward": statistics.median(forward),
        "backward": statistics.median(backward),
        "peak_numbers": seen.numbers,
    }


def _now(x: Tensor) -> float:
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()
