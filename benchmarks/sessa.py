"""Sessa's loop: a training step against attention, the solve against its products, memory, decode.

Ratios, taken in turn in one process. Two halves of a square cost as a whole: the loop's part that
grows with the square of the length is twice attention's, which the bars know.
"""

import argparse
import statistics
import time

import torch

from fedscan.measure.largest_tensor import LargestTensor
from fedscan.models.sessa import Sessa, construct
from fedscan.models.sessa_decode import prefill, step
from fedscan.models.triangular import feedback
from fedscan.pipeline.machine import keep_freed_memory

THREADS = 1
WIDTH, HEADS = 256, 4
# Length -> sequences, bar.
STEPS = {128: (16, 1.6), 512: (8, 1.6), 2048: (2, 1.9)}
SOLVE_BAR = 2.0


def in_turn(repeats, **cases):
    """Median seconds of every case, each measured once per turn; the first turn warms up."""
    taken = {name: [] for name in cases}
    for turn in range(repeats + 1):
        for name, run in cases.items():
            start = time.perf_counter()
            run()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in taken.items()}


def block(loop):
    layer = Sessa(WIDTH, HEADS, loop=loop)
    with torch.no_grad():
        construct(layer, torch.Generator().manual_seed(0))
    norm = torch.nn.LayerNorm(WIDTH)
    return torch.nn.ModuleList([norm, layer])


def training_step(parts, x):
    norm, layer = parts
    out = x + layer(norm(x))
    torch.autograd.grad(out.square().mean(), list(parts.parameters()))


def steps(lengths, repeats):
    for length in lengths:
        batch, bar = STEPS[length]
        x = torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(1))
        sessa, attention = block(True), block(False)
        found = in_turn(
            repeats,
            sessa=lambda sessa=sessa, x=x: training_step(sessa, x),
            attention=lambda attention=attention, x=x: training_step(attention, x),
        )
        ratio = found["sessa"] / found["attention"]
        where = f"training step of a block, {batch} x {length}, width {WIDTH}"
        yield f"{where}: Sessa", found["sessa"], "s"
        yield f"{where}: Sessa / attention (bar {bar})", ratio, "x"


def solve(lengths, repeats):
    for length in lengths:
        batch = max(1, 4096 // length)
        g = torch.Generator().manual_seed(2)
        q, k, f = (torch.randn(batch, length, WIDTH, generator=g) for _ in range(3))
        q, gains = q / WIDTH**0.5, 0.9 * torch.rand(batch, length, generator=g)
        leaves = [part.requires_grad_() for part in (q, k, gains, f)]

        def ours(leaves=leaves):
            torch.autograd.grad(feedback(*leaves).sum(), leaves)

        square, tall = torch.randn(batch, length, length, generator=g), f.detach()

        def products(square=square, tall=tall):
            # Logits, solve; forward: two halves. Backward: two halves of each.
            for _ in range(3):
                torch.bmm(square, tall)

        found = in_turn(repeats, ours=ours, products=products)
        bar = f" (bar {SOLVE_BAR})" if length == 2048 else ""
        where = f"loop, {batch} x {length}, forward and backward"
        yield f"{where}: its multiply-adds as products", found["products"], "s"
        yield f"{where}: time / its products{bar}", found["ours"] / found["products"], "x"


def memory(lengths):
    for length in lengths:
        g = torch.Generator().manual_seed(3)
        leaves = [torch.randn(1, length, 64, generator=g).requires_grad_() for _ in range(3)]
        leaves.insert(2, (0.5 * torch.rand(1, length, generator=g)).requires_grad_())
        kept = []

        def pack(tensor, kept=kept):
            kept.append(tensor.numel())
            return tensor

        with LargestTensor() as seen, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            torch.autograd.grad(feedback(*leaves, keep=False).sum(), leaves)
        where = f"streaming form, 1 x {length} x 64"
        yield f"{where}: largest tensor", seen.numbers / length, "numbers per token"
        yield f"{where}: kept for the backward pass", sum(kept) / length, "numbers per token"


@torch.no_grad()
def decode(lengths, repeats):
    for length in lengths:
        x = torch.randn(1, length + repeats + 1, WIDTH, generator=torch.Generator().manual_seed(4))
        for name, loop in (("Sessa", True), ("attention", False)):
            _, layer = block(loop)
            cache = prefill(layer, x[:, :length], length + repeats + 1)[1]
            state = [cache]

            def one(state=state, layer=layer, x=x):
                _, state[0] = step(layer, x[:, state[0].length], state[0])

            def whole(layer=layer, x=x, length=length):
                layer(x[:, :length])

            found = in_turn(repeats, one=one, whole=whole)
            where = f"decoding after {length} tokens, {name}"
            yield f"{where}: a token", found["one"], "s"
            yield f"{where}: a full pass / a token", found["whole"] / found["one"], "x"


def main():
    from environment import record

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="shortest lengths only, for a test")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(THREADS)
    lengths = [128] if arguments.tiny else [128, 512, 2048]
    rows = [
        *steps(lengths, arguments.repeats),
        *solve(lengths, arguments.repeats),
        *memory([256, 512] if arguments.tiny else [1024, 2048, 4096, 8192]),
        *decode(lengths, arguments.repeats),
    ]
    if arguments.tiny:
        for row in rows:
            print(*row)
        return
    record("sessa", rows, THREADS)


if __name__ == "__main__":
    main()
