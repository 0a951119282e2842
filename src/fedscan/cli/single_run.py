"""One federated run from text to a table, without the workflow."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import plan
from fedscan.experiments.comparison.grid import Run
from fedscan.experiments.comparison.tables import RUNS
from fedscan.experiments.corpus import plan as corpus
from fedscan.experiments.corpus.grid import PartitionAxes
from fedscan.experiments.registry import STAGES
from fedscan.io import parquet
from fedscan.io.provenance import code_fingerprint
from fedscan.pipeline.preemption import stop_if_asked
from fedscan.pipeline.runner import on_device
from fedscan.pipeline.stage import Job, Log


def single_run(config: Mapping[str, Any], run: Run, folder: Path, report: Log) -> str:
    """Prepare the data, if it is not there yet, and train one run.

    Args:
        config: the whole configuration.
        run: what to train.
        folder: receives tokens/, partition/, run/ and, while running, checkpoints/.
        report: the job's log.

    Returns:
        One line with the outcome.
    """
    # A place on a GPU comes first: preparing data for a run that cannot start is no use.
    with on_device(STAGES["federated"].device, config, report):
        _prepare_and_train(config, run, folder, report)
    job = run.job
    (row,) = parquet.read(folder / "run/runs.parquet", RUNS).to_pylist()
    if row["status"] == "failed":
        return f"FAILED: {row['failure']}; {row['rounds']} rounds in {folder / 'run'}"
    return (
        f"{job.algorithm} {run.value}: train ppl {row['train_ppl']:.2f}, val ppl"
        f" {row['val_ppl']:.2f}, last-10 {row['val_ppl_last10']:.2f} per {row['tokenizer']} token,"
        f" {row['data_source']} text; tables in {folder / 'run'}"
    )


def _prepare_and_train(config: Mapping[str, Any], run: Run, folder: Path, report: Log) -> None:
    job = run.job
    domains = sorted(config["partition"]["settings"][job.setting])
    axes = PartitionAxes(job.setting, job.beta, job.clients)
    choices = plan.federated_choices([run])
    code = code_fingerprint(STAGES["federated"].module, choices=choices)
    for rule, settings, inputs, name in (
        ("tokens", corpus.tokens(config, domains), {}, "tokens"),
        ("partition", corpus.partition(config, axes), {"tokens": "tokens"}, "partition"),
        (
            "federated",
            {**plan.federated(config, [run]), "code": code},
            {"partition": "partition"},
            "run",
        ),
    ):
        places = {key: folder / place for key, place in inputs.items()}
        scratch = folder / "checkpoints"
        work = Job(settings, places, folder, folder / name, scratch, report, stop_if_asked)
        importlib.import_module(STAGES[rule].module).run(work)
