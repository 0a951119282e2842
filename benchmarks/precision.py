"""bfloat16 autocast against float32 on CPUs: the loss curve, and the time of the paper's step.

The curve is of a small model (depth 2, d_model 64, 128 tokens) on a noisy chain of 512 tokens,
FedAvg over 4 clients, E=10, T=8, three seeds. A difference between precisions matters where it is
above the spread over seeds. The step is that of ``mixers.py``: depth 4, d_model 256, 8 x 512.
Without bfloat16 instructions (flags avx512_bf16 or amx_bf16) it can only be slower.
"""

import statistics
import time

import numpy as np
import torch
from environment import record
from mixers import THREADS, ours

from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline.machine import keep_freed_memory
from fedscan.problems.language_model import LanguageModelProblem, Schedule

TOKENS, CLIENTS, ROUNDS, SEEDS = 512, 4, 8, (0, 1, 2)
SMALL = Architecture(layout(2), 64, 32, 4, 2, 32, 1, 8, TOKENS, 8, 64)
SCHEDULE = Schedule(10, 8, 3e-3, (0.9, 0.999), 1e-8, 0.01, 1.0, 16)


def chain(rng, sequences, length=128):
    """Tokens of which four in five follow the one before by a fixed permutation."""
    follower = np.random.default_rng(0).permutation(TOKENS)
    rows = rng.integers(0, TOKENS, (sequences, length))
    kept = rng.random((sequences, length)) < 0.8
    for t in range(1, length):
        rows[:, t] = np.where(kept[:, t], follower[rows[:, t - 1]], rows[:, t])
    return rows.astype(np.uint16)


def curve(precision, seed):
    """Validation loss after every round, nats per token."""
    rng = np.random.default_rng(seed)
    train = [chain(rng, 80) for _ in range(CLIENTS)]
    model = initialise(SMALL, seed)
    problem = LanguageModelProblem(model, train, chain(rng, 32), SCHEDULE, seed, precision, "cpu")
    algorithm = ALGORITHMS["fedavg"]()
    state = engine.initial_state(problem, algorithm)
    return np.array([r.val_loss for r in engine.run(problem, algorithm, ROUNDS, state)])


def seconds(model, ids, precision):
    """CPU seconds of one step."""
    start = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        loss = model.loss(ids)
    loss.backward()
    model.zero_grad()
    return time.process_time() - start


def main():
    keep_freed_memory()
    torch.set_num_threads(THREADS)
    model = ours()
    ids = torch.randint(0, 50257, (8, 512), generator=torch.Generator().manual_seed(0))
    times = {"float32": [], "bfloat16": []}
    for _ in range(4):
        for precision, found in times.items():
            found.append(seconds(model, ids, precision))
    step = {precision: min(found[1:]) for precision, found in times.items()}
    curves = {p: np.array([curve(p, seed) for seed in SEEDS]) for p in times}
    plain, low = curves["float32"], curves["bfloat16"]
    spread = statistics.stdev(plain[:, -1])
    record(
        "precision",
        [
            ("whole step, float32", step["float32"], "CPU s"),
            ("whole step, bfloat16", step["bfloat16"], "CPU s"),
            ("bfloat16 is faster by", step["float32"] / step["bfloat16"], "x"),
            ("loss after one round, float32, mean over seeds", plain[:, 0].mean(), "nats"),
            ("loss at the end, float32, mean over seeds", plain[:, -1].mean(), "nats"),
            ("loss at the end, bfloat16, mean over seeds", low[:, -1].mean(), "nats"),
            ("standard deviation of the float32 end over seeds", spread, "nats"),
            ("mean bfloat16 - float32 at the end", (low - plain)[:, -1].mean(), "nats"),
            ("largest difference at any round and seed", abs(low - plain).max(), "nats"),
        ],
        THREADS,
    )


if __name__ == "__main__":
    main()
