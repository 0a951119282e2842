"""Forward and backward of our Mamba2 against transformers' on one CPU, best of n.

Batch 8 x 512, depth 4, d_model 256: the paper's model. CPU seconds of a process per case; float32,
and bfloat16 autocast where the machine has instructions for it. A training job here keeps freed
memory (pipeline.machine); transformers is measured as it comes and with that setting
too, so that its share in the ratio can be seen.
"""

import argparse
import itertools
import resource
import subprocess
import sys
import time

import torch

THREADS = 2
BFLOAT16 = ", bfloat16"


def ours():
    from fedscan.models.architecture import Architecture, layout
    from fedscan.models.initialise import initialise

    return initialise(Architecture(layout(4), 256, 128, 4, 2, 64, 1, 8, 50277, 8, 64), 0)


def theirs():
    from transformers import Mamba2Config, Mamba2ForCausalLM

    return Mamba2ForCausalLM(
        Mamba2Config(
            num_heads=8, head_dim=64, vocab_size=50280, hidden_size=256, state_size=128,
            num_hidden_layers=4, expand=2, conv_kernel=4, n_groups=1, use_bias=False,
            use_conv_bias=True, residual_in_fp32=True, chunk_size=256, tie_word_embeddings=True,
            time_step_limit=(0.0, float("inf")), pad_token_id=0, bos_token_id=0, eos_token_id=0,
            use_cache=False,
        )
    )  # fmt: skip


def measure(who, what, repeats):
    """CPU seconds (best) and peak resident memory of one model in a process of its own."""
    from fedscan.pipeline.machine import keep_freed_memory

    precise, low = who.removesuffix(BFLOAT16), who.endswith(BFLOAT16)
    if precise != "transformers":
        keep_freed_memory()
    torch.set_num_threads(THREADS)
    mine = precise == "ours"
    model = ours() if mine else theirs()
    ids = torch.randint(0, 50257, (8, 512), generator=torch.Generator().manual_seed(0))
    if what == "mixers":
        run = (
            (lambda: model.backbone(ids).sum())
            if mine
            else (lambda: model.backbone(ids).last_hidden_state.sum())
        )
    else:
        run = (lambda: model.loss(ids)) if mine else (lambda: model(ids, labels=ids).loss)
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = run()
        loss.backward()
        best = min(best, time.process_time() - start)
        model.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(best, peak)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("WHO", "WHAT"), help="measure in this process")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.one:
        measure(*arguments.one, arguments.repeats)
        return
    from environment import processor, record

    peers = ["transformers", "transformers, memory kept"]
    mine = ["ours"]
    if "avx512_bf16" in processor():
        mine, peers = [*mine, "ours" + BFLOAT16], [*peers, peers[1] + BFLOAT16]
    rows = []
    for what in ("mixers", "whole step"):
        found = {}
        for who in (*mine, *peers):
            command = [sys.executable, __file__, "--one", who, what]
            command += ["--repeats", str(arguments.repeats)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[who] = [float(part) for part in done.stdout.split()]
            rows.append((f"{what}, {who}", found[who][0], "CPU s"))
            rows.append((f"{what}, {who}: peak memory", found[who][1], "GiB"))
        for us, who in itertools.product(mine, peers):
            speed, memory = found[who][0] / found[us][0], found[us][1] / found[who][1]
            rows.append((f"{what}: {us} faster than {who}", speed, "x"))
            rows.append((f"{what}: memory of {us} / {who}", memory, "x"))
    record("mixers", rows, THREADS)


if __name__ == "__main__":
    main()
