"""A federated round of a tiny and a small language model in fedscan and its peers.

plain: a PyTorch loop over fedscan's Mamba2; transformers: the same over Mamba2ForCausalLM; flower:
its simulation with that loop in the clients; pfl: pfl-research's own local training. What they do
differently is said in peer_rounds.py.

Every run is a process of its own; the peers take turns, so that a drift of the machine's speed
meets all of them. A round's time is the mean over the timed rounds of a run: wall seconds, and CPU
seconds of the process and everything below it. Start-up is wall seconds from the start of the
process to the end of its first round.

That all do the same work is seen from the weights after three rounds in float64, before anything is
timed: largest difference from fedscan's, mere rounding for the peers that stay in float64. The
final weights of the timed runs are compared too, but in float32 a fresh AdamW makes +-lr of a
gradient that is all rounding, and training carries it on: a few lr, and a difference whose norm is
a small part of what training moved, are expected there.
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import torch
from peer_rounds import CASES, RUNS, WARM, arrays, start

RECORDED = ("torch", "numpy", "transformers", "flwr", "ray", "pfl")
# Neither Flower nor Ray is to report this run to its makers.
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def cpu_seconds():
    """CPU time of this process and all below it, with those that ended."""
    total = time.process_time() + sum(os.times()[2:4])
    for process in psutil.Process().children(recursive=True):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:  # ended just now, and its parent has its time
            continue
    return total


class Clock:
    """Takes the time at the end of the last untimed and the last timed round."""

    def __init__(self, timed):
        self.timed, self.rounds, self.marks = timed, 0, []

    def round_done(self):
        self.rounds += 1
        if self.rounds == 1:
            self.startup = time.time() - psutil.Process().create_time()
        if self.rounds in (WARM, WARM + self.timed):
            self.marks.append((time.perf_counter(), cpu_seconds()))

    def seconds_per_round(self):
        (wall, cpu), (last_wall, last_cpu) = self.marks
        return (last_cpu - cpu) / self.timed, (last_wall - wall) / self.timed


def versions():
    found = {}
    for name in RECORDED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def run_here(peer, case, double, into):
    """Run one peer in this process; print its times and keep them and its weights in ``into``."""
    torch.set_num_threads(1)
    case = CASES[case]._replace(timed=1, dtype=torch.float64) if double else CASES[case]
    clock = Clock(case.timed)
    params = RUNS[peer](case, clock.round_done)
    cpu, wall = clock.seconds_per_round()
    found = {"cpu": cpu, "wall": wall, "startup": clock.startup, "versions": versions()}
    print(json.dumps(found))
    if into is not None:
        Path(into, "found.json").write_text(json.dumps(found))
        np.savez(Path(into, "weights.npz"), **params)


def run_apart(python, peer, case, *options):
    """Run one peer in a process of its own; return what it measured and its weights."""
    with tempfile.TemporaryDirectory() as into:
        command = [python, __file__, "--one", peer, case, *options, "--into", into]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | QUIET)
        if done.returncode:
            raise SystemExit(f"{peer}, {case}:\n{done.stdout}{done.stderr}")
        with np.load(Path(into, "weights.npz")) as weights:
            return json.loads(Path(into, "found.json").read_text()), dict(weights)


def differences(case, found, expected):
    """The largest difference of two models' weights, and its norm relative to training's."""
    first = arrays(start(CASES[case]))
    gaps = [found[name] - expected[name] for name in first]
    moved = [expected[name] - first[name] for name in first]
    norm = np.sqrt(sum((g**2).sum() for g in gaps) / sum((m**2).sum() for m in moved))
    return {"largest": float(max(np.abs(g).max() for g in gaps)), "relative": float(norm)}


def check(pythons):
    """Differences from fedscan's weights after three rounds in float64, by (case, peer)."""
    found = {}
    for case in CASES:
        for peer, python in pythons.items():
            _, weights = run_apart(python, peer, case, "--double")
            if peer == "fedscan":
                expected = weights
            found[case, peer] = differences(case, weights, expected)
            print(f"check of {case}, {peer}: {found[case, peer]}", file=sys.stderr)
    return found


def measure(pythons, repetitions):
    """Samples by (case, peer), one per repetition, and the versions of each peer."""
    samples = {(case, peer): [] for case in CASES for peer in pythons}
    used = {}
    for repetition in range(repetitions):
        for case, peer in samples:
            sample, weights = run_apart(pythons[peer], peer, case)
            if peer == "fedscan":
                expected = weights
            used[peer] = sample.pop("versions")
            sample |= differences(case, weights, expected)
            samples[case, peer].append(sample)
            print(f"{repetition + 1}/{repetitions} {case}, {peer}: {sample}", file=sys.stderr)
    return samples, used


def columns(runs, ours, checked):
    """Name, value and unit of what is told of one case and peer."""
    found = []
    for key, name in (("cpu", "CPU"), ("wall", "wall")):
        times, base = ([1000 * sample[key] for sample in r] for r in (runs, ours))
        middle = statistics.median(times)
        found.append((f"{name} of a round", middle, "ms"))
        found.append((f"{name} of a round, least", min(times), "ms"))
        found.append((f"{name} of a round, most", max(times), "ms"))
        found.append((f"{name} / fedscan's", middle / statistics.median(base), "x"))
    found.append(("start-up", statistics.median(sample["startup"] for sample in runs), "s"))
    found.append(("float64: largest difference", checked["largest"], ""))
    for key in ("largest", "relative"):
        found.append((f"float32: {key} difference", max(s[key] for s in runs), ""))
    return found


def show(table):
    """Print one line per case and peer."""
    first = next(iter(table.values()))
    widths = [max(len(name), 12) for name, _, _ in first]
    heads = [name.rjust(w) for (name, _, _), w in zip(first, widths, strict=True)]
    print(f"{'':22s}" + "  ".join(heads))
    for (case, peer), cells in table.items():
        values = [f"{v:.4g} {u}".rjust(w) for (_, v, u), w in zip(cells, widths, strict=True)]
        print(f"{case:8s} {peer:13s}" + "  ".join(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flower", metavar="PYTHON", help="interpreter that has flwr")
    parser.add_argument("--pfl", metavar="PYTHON", help="interpreter that has pfl")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("PEER", "CASE"), help="run in this process")
    parser.add_argument("--double", action="store_true", help="--one in float64, three rounds")
    parser.add_argument("--into", metavar="FOLDER", help="keep times and weights of --one")
    arguments = parser.parse_args()
    if arguments.one:
        run_here(*arguments.one, arguments.double, arguments.into)
        return
    from environment import RESULTS, write

    here = dict.fromkeys(("fedscan", "plain", "transformers"), sys.executable)
    pythons = here | {"flower": arguments.flower, "pfl": arguments.pfl}
    missing = [peer for peer, python in pythons.items() if python is None]
    pythons = {peer: python for peer, python in pythons.items() if python}
    checked = check(pythons)
    samples, used = measure(pythons, arguments.repetitions)
    table = {
        (case, peer): columns(runs, samples[case, "fedscan"], checked[case, peer])
        for (case, peer), runs in samples.items()
    }
    show(table)
    for peer in missing:
        print(f"{peer}: not measured, since --{peer} is not given")
    rows = [
        (f"{case}, {peer}: {name}", value, unit)
        for (case, peer), cells in table.items()
        for name, value, unit in cells
    ]
    facts = {"not_measured": missing, "peer_versions": used, "repetitions": arguments.repetitions}
    write(RESULTS, "peers", rows, 1, facts)


if __name__ == "__main__":
    main()
