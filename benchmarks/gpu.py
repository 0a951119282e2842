"""Numbers and times on a GPU; each part runs by itself and writes its own JSON, row by row.

python benchmarks/gpu.py PART [--kernels torch|mamba_ssm] [--out FOLDER]; gpu.sh runs all of them.
A failed comparison or measurement is a row, the rest goes on, and the exit code is 1.
"""

import argparse
import sys

import torch
from environment import RESULTS
from gpu_bench import Bench
from gpu_concurrency import concurrency, worker
from gpu_parity import model, rounds, selective, timed_part
from gpu_speed import environment, profile, run, step

PARTS = {
    "environment": environment,
    "selective": selective,
    "model": model,
    "round": rounds,
    "step": step,
    "run": run,
    "concurrency": concurrency,
    "profile": profile,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, "worker"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--kernels", choices=["torch", "mamba_ssm"], default="torch")
    parser.add_argument("--tiny", action="store_true", help="only show that the code runs")
    parser.add_argument("--out", default=str(RESULTS), help="folder of the JSON files")
    parser.add_argument("--rounds", type=int, default=50, help="rounds of part run")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds of part run")
    parser.add_argument("--index", type=int, default=0, help="of a worker")
    args = parser.parse_args()
    torch.set_num_threads(1 if args.tiny else 4)
    name = args.part if args.kernels == "torch" else f"{args.part}_{args.kernels}"
    bench = Bench(name, args.device, args.tiny, args.out, args.kernels)
    if args.part == "worker":
        worker(bench, args.index)
        return 0
    part = PARTS[args.part]
    if args.part == "run":
        timed_part(bench, lambda bench: run(bench, args.rounds, args.budget))
    else:
        timed_part(bench, part)
    for failure in bench.failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
