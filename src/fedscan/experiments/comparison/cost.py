"""What the training runs that are missing cost: step times measured here, bytes from row counts."""

import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison.collect import present
from fedscan.experiments.comparison.step_times import StepTimes, gradient_evaluations, measure
from fedscan.experiments.comparison.tables import IDENTITY, RUNS, last_round
from fedscan.io import checkpoints, parquet
from fedscan.labels import round_file
from fedscan.pipeline.cost import Cost

# Least squares over 46 jobs of the embedded default (2026-11): compressed bytes per row, and what a
# job's five tables take without rows. Tokens: made-up bytes take 0.9; real text is less regular.
ROW_BYTES = {"rounds": 80, "clients": 36, "mixers": 47, "heads": 25}
JOB_BYTES = 26_000
TOKEN_BYTES = 1.6
JOB_START = "import fedscan.experiments.comparison.training"


def missing(config: Mapping[str, Any], results: Path) -> dict[str, int]:
    """Count what is to be made.

    Args:
        config: the whole configuration.
        results: folder of all results.

    Returns:
        What it is called -> how many.
    """
    return {"training runs": len(missing_runs(config, results))}


def missing_runs(config: Mapping[str, Any], results: Path) -> list[grid.Run]:
    """Return the training runs that are not there under this configuration.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of all results.

    Returns:
        Runs whose values a job would train.
    """
    left = []
    for path, members in grid.jobs(grid.runs(config["studies"])).items():
        file = results / "federated" / path / "runs.parquet"
        there: set[str] = set()
        if file.exists():
            found = parquet.read_frame(file, RUNS)
            found = found[found["value"].isin([run.value for run in members])]
            found = found.assign(**members[0].job._asdict())
            ok = present(members, found, config["training"], config["model"])
            kept = config["workflow"]["keep_model_rounds"]
            there = {
                row["value"]
                for row in found[ok].to_dict("records")
                if _has_models(file.parent, row, kept)
            }
        left += [run for run in members if run.value not in there]
    return left


def _has_models(folder: Path, row: Mapping[str, Any], rounds: Sequence[int]) -> bool:
    hashes = {name: row[name] for name in IDENTITY}
    wanted = [round_file(row["value"], r) for r in rounds if r <= last_round(row)]
    return all(checkpoints.holds(folder / file, hashes) for file in wanted)


def cost(config: Mapping[str, Any], results: Path, cores: int) -> Cost:
    """Estimate what the missing runs cost on this machine.

    Args:
        config: the whole configuration, as JSON-like data.
        results: folder of all results.
        cores: CPU cores that jobs share.

    Returns:
        Hours from step times measured now; bytes from row counts and model sizes.

    Raises:
        ValueError: if the configured device is not there.
    """
    runs = missing_runs(config, results)
    training, partition = config["training"], config["partition"]
    length = partition["sequence_length"]
    shapes = sorted({(run.job.backbone, run.job.depth) for run in runs})
    times = {s: measure(training, config["model"], length, *s) for s in shapes}
    evaluations = {name: gradient_evaluations(name) for name in {r.job.algorithm for r in runs}}
    seconds = sum(
        _seconds(run, times[run.job.backbone, run.job.depth], evaluations, training, partition)
        for run in runs
    )
    seconds += len({run.job for run in runs}) * _start_seconds()
    at_once = max(cores // training["threads"], 1) if training["device"] == "cpu" else 1
    sizes = {run: times[run.job.backbone, run.job.depth].parameters for run in runs}
    kept = config["workflow"]["keep_final_model"] + len(config["workflow"]["keep_model_rounds"])
    largest = max((4 * sizes[r] * (2 + 2 * r.job.clients) for r in runs), default=0)
    return Cost(
        training["device"],
        seconds / 3600,
        seconds / 3600 / at_once,
        sum(_table_bytes(run, training, config["model"]) for run in runs)
        + JOB_BYTES * len({run.job for run in runs})
        + _data_bytes(runs, partition),
        float(kept * sum(4 * size for size in sizes.values())),
        float(largest * at_once),
        {
            f"{backbone}, depth {depth}": (found.step, found.evaluated_sequence)
            for (backbone, depth), found in times.items()
        },
    )


def _seconds(
    run: grid.Run,
    times: StepTimes,
    evaluations: Mapping[str, int],
    training: Mapping[str, Any],
    partition: Mapping[str, Any],
) -> float:
    job = run.job
    held_out = partition["sequences_per_client"] * (1 - partition["train_val_split"])
    # More clients than domains share the same pools.
    sequences = min(job.clients, len(partition["settings"][job.setting])) * held_out
    steps = job.clients * job.local_steps * times.step * evaluations[job.algorithm]
    rest = job.clients * times.client_round + sequences * times.evaluated_sequence
    return float(training["rounds"] * (steps + rest))


def _table_bytes(run: grid.Run, training: Mapping[str, Any], model: Mapping[str, Any]) -> float:
    heads = model["expand"] * model["d_model"] // model["headdim"]
    per_round = ROW_BYTES["rounds"] + ROW_BYTES["clients"] * run.job.clients
    per_round += run.job.depth * (ROW_BYTES["mixers"] + ROW_BYTES["heads"] * heads)
    return float(training["rounds"] * per_round)


def _data_bytes(runs: Sequence[grid.Run], partition: Mapping[str, Any]) -> float:
    held = {(run.job.setting, run.job.beta, run.job.clients) for run in runs}
    sequences = partition["sequences_per_client"] * sum(
        len(partition["settings"][setting]) for setting, _, _ in held
    )
    domains = {d for setting, _, _ in held for d in partition["settings"][setting]}
    sequences += partition["sequences_per_client"] * len(domains)
    return float(math.ceil(sequences * partition["sequence_length"] * TOKEN_BYTES))


def _start_seconds() -> float:
    """Return how long a job takes to start: Python, torch and the package."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", JOB_START], check=True)
    return time.perf_counter() - start
