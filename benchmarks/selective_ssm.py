"""The compiled CPU kernel of the analysed layer against autograd over the recurrence.

One thread each, batch 64, 64 tokens, loss and gradient; float32, and the second derivative in
float64. GFLOP/s count ten operations per state entry and step, nothing else; the machine's peak is
the rate of a large float32 matrix product on one thread of the same run.
"""

import time

import numpy as np
import torch
from environment import record

from fedscan.models.selective_ssm import cpu, reference
from fedscan.models.selective_ssm.layout import BLOCKS, Shape
from fedscan.pipeline.machine import keep_freed_memory

BATCH, LENGTH, OPERATIONS = 64, 64, 10


def best(function, seconds=2.0):
    """Least time of a call; the two sides of a ratio are measured in turn."""
    function()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak():
    """GFLOP/s of a matrix product of 1024 x 1024 float32 numbers."""
    size = 1024
    a, b = torch.rand(2, size, size)
    return 2 * size**3 / best(lambda: a @ b) / 1e9


def layer(vector, shape):
    d, n = shape
    sizes = ((d, d), (n, d), (n, d), (n,))
    parts = torch.split(vector, shape.sizes)
    return {b: p.view(s) for b, p, s in zip(BLOCKS, parts, sizes, strict=True)}


def main():
    torch.set_num_threads(1)
    keep_freed_memory()
    highest = peak()
    rows = [("matrix product of 1024 x 1024, float32: the machine's peak", highest, "GFLOP/s")]
    for d, n in ((4, 4), (4, 16), (8, 8), (16, 16)):
        shape, rng = Shape(d, n), np.random.default_rng(0)
        params = rng.normal(0, 0.3, shape.parameters).astype(np.float32)
        params[-n:] = -1 - np.abs(params[-n:])
        tokens = rng.integers(0, d, (BATCH, LENGTH)).astype(np.uint8)
        data = torch.tensor(tokens)

        def autograd(params=params, data=data, shape=shape):
            vector = torch.tensor(params, requires_grad=True)
            reference.sequence_losses([layer(vector, shape)], data).mean().backward()

        def kernel(params=params, tokens=tokens, shape=shape):
            cpu.gradient(params, tokens, shape)

        theirs, ours = best(autograd), best(kernel)
        work = OPERATIONS * d * n * (LENGTH - 1) * BATCH
        double = params.astype(np.float64)
        directions = rng.normal(size=(BATCH, shape.parameters))

        def products(p=double, v=directions, t=tokens, s=shape):
            cpu.hessian_products(p, v, t, s)

        second = best(products)
        rows += [
            (f"D={d}, N={n}: autograd, loss and gradient", 1000 * theirs, "ms"),
            (f"D={d}, N={n}: kernel, loss and gradient", 1000 * ours, "ms"),
            (f"D={d}, N={n}: kernel is faster by", theirs / ours, "x"),
            (f"D={d}, N={n}: kernel", work / ours / 1e9, "GFLOP/s"),
            (f"D={d}, N={n}: kernel / peak", 100 * work / ours / 1e9 / highest, "%"),
            (f"D={d}, N={n}: 64 Hessian-vector products, float64", 1000 * second, "ms"),
        ]
    record("selective_ssm", rows, 1)


if __name__ == "__main__":
    main()
