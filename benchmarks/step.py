"""A training step of the paper's model against its own matrix products alone, in one process.

Batch 8 x 512, depth 4, d_model 256. Every matrix product of one forward and backward pass is noted
with its shapes and layouts, then run again by itself on tensors of the same layouts: what is left
of the step's time is everything else. CPU seconds, best of n, taken in turns.
"""

import argparse
import math
import time
from collections import Counter

import torch
from mixers import THREADS, ours
from torch.utils._python_dispatch import TorchDispatchMode

from fedscan.models.language_model import HEAD_ROWS
from fedscan.pipeline.machine import keep_freed_memory

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv"}


class Note(TorchDispatchMode):
    """Notes the operands of every matrix product, and lets it happen."""

    def __init__(self):
        super().__init__()
        self.products = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in PRODUCTS:
            operands = tuple((a.shape, a.stride(), a.dtype) for a in args if torch.is_tensor(a))
            self.products[name, operands] += 1
        return function(*args, **(kwargs or {}))


def head_products(rows, width, vocabulary):
    """The products inside torch's fused head loss, which are not seen: logits and two gradients."""
    found = Counter()
    plain = torch.float32
    for start in range(0, rows, HEAD_ROWS):
        size = min(HEAD_ROWS, rows - start)
        hidden = ((size, width), (width, 1), plain)
        logits = ((size, vocabulary), (vocabulary, 1), plain)
        turned = ((vocabulary, size), (1, vocabulary), plain)
        weight = ((vocabulary, width), (width, 1), plain)
        found["mm", (hidden, ((width, vocabulary), (1, width), plain))] += 1
        found["mm", (logits, weight)] += 1
        found["mm", (turned, hidden)] += 1
    return found


def flops(products):
    """Floating-point operations of the noted products."""
    total = 0
    for (_, operands), count in products.items():
        (a, *_), (b, *_) = operands[-2:]
        total += count * 2 * math.prod(a) * (b[-1] if len(b) > 1 else 1)
    return total


def replayed(products):
    """Return a function that runs the noted products, each as often as it was noted."""
    work = []
    for (name, operands), count in products.items():
        tensors = [
            torch.empty_strided(shape, stride, dtype=dtype).uniform_(-1, 1)
            for shape, stride, dtype in operands
        ]
        work.append((getattr(torch, name), tensors, count))

    @torch.no_grad()
    def run():
        for product, tensors, count in work:
            for _ in range(count):
                product(*tensors)

    return run


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    from environment import record

    keep_freed_memory()
    torch.set_num_threads(THREADS)
    model = ours()
    ids = torch.randint(0, 50257, (8, 512), generator=torch.Generator().manual_seed(0))
    rows = []
    for name, loss in (
        ("mixers", lambda: model.backbone(ids).sum()),
        ("whole step", lambda: model.loss(ids)),
    ):

        def step(loss=loss):
            loss().backward()
            model.zero_grad()

        with Note() as note:
            step()
        if name == "whole step":
            shape = model.shape
            note.products += head_products(8 * 511, shape.d_model, shape.padded_vocab_size)
        products = replayed(note.products)
        best = [float("inf"), float("inf")]
        for _ in range(repeats + 1):
            best = [min(b, seconds(w)) for b, w in zip(best, (step, products), strict=True)]
        work = flops(note.products)
        rows += [
            (f"{name}: forward and backward", best[0], "CPU s"),
            (f"{name}: its matrix products alone", best[1], "CPU s"),
            (f"{name}: step / products", best[0] / best[1], "x"),
            (f"{name}: matrix products", work / 1e9, "GFLOP"),
            (f"{name}: rate of the products", work / 1e9 / best[1], "GFLOP per CPU s"),
        ]
    record("step", rows, THREADS)


if __name__ == "__main__":
    main()
