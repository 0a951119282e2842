"""Layers of the 130M shape over depth against their own matrix products alone, in one process.

50 tokens, random values, one thread, float32: every draw and depth with the measures, as stage
consensus_model takes them. The products are those of the projections with the same shapes and
weights. CPU seconds, best of n, taken in turns; peak memory of a process of its own.
"""

import argparse
import resource
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from environment import record

from fedscan.experiments.consensus.following import follow
from fedscan.models.architecture import Architecture, layout
from fedscan.models.depth_iteration import Form, Update, in_turn, mixer_layers
from fedscan.models.initialise import initialise
from fedscan.pipeline.machine import keep_freed_memory

SHAPE = Architecture(layout(24), 768, 128, 4, 2, 64, 1, 1, 50277, 16, 256)
SMALL = Architecture(layout(2), 32, 16, 4, 2, 16, 1, 1, 257, 8, 32)
TOKENS, DEPTH = 50, 200


def prepared(shape):
    """Layers, and an embedding: the head's memory is not needed."""
    model = initialise(shape, 0).requires_grad_(False)
    return mixer_layers(model), model.backbone.embedding.weight


def products(start, layers, form, depth):
    """The projections alone."""
    inner = len(layers[0].gated_norm)
    wide = start.repeat(1, 1, -(-inner // start.shape[-1]))[..., :inner]
    for index in range(depth):
        layer = layers[index % len(layers)]
        for draw in range(len(start)):
            if form.gate:
                F.linear(start[draw], layer.gate)
            F.linear(start[draw], layer.selective)
            F.linear(wide[draw], layer.out)


def seconds(action):
    """CPU seconds of a call."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def measured(shape, draws, depth, repeats):
    """Rows per form: a draw's seconds over the whole depth, its products', their ratio."""
    layers, embedding = prepared(shape)
    ids = torch.randint(
        shape.vocab_size, (draws, TOKENS), generator=torch.Generator().manual_seed(1)
    )
    start = embedding[ids]
    rows = []
    for name, form in (("with gate", Form()), ("without gate", Form(gate=0.0))):
        whole, alone = [], []
        for _ in range(repeats):
            whole.append(
                seconds(lambda f=form: follow(start, in_turn(layers, f), depth, Update())) / draws
            )
            alone.append(seconds(lambda f=form: products(start, layers, f, depth)) / draws)
        rows += [
            (f"{name}: a draw, {depth} layers", min(whole), "CPU s"),
            (f"{name}: its matrix products alone", min(alone), "CPU s"),
            (f"{name}: ratio", min(whole) / min(alone), "-"),
        ]
    return rows


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--depth", type=int, default=DEPTH)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--memory", action="store_true", help="print peak MiB of an iteration")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    shape = SMALL if chosen.small else SHAPE
    if chosen.memory:
        measured(shape, chosen.draws, 2 * shape.depth, 1)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    rows = measured(shape, chosen.draws, chosen.depth, chosen.repeats)
    command = [sys.executable, __file__, "--memory", "--draws", str(chosen.draws)]
    command += ["--small"] if chosen.small else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows.append(("peak memory of an iteration", float(done.stdout), "MiB"))
    if chosen.small:
        for row in rows:
            print(*row)
    else:
        record("consensus", rows, 1)


if __name__ == "__main__":
    main()
