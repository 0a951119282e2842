"""One federated run from text to a table, without the workflow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.comparison import training as federated
from fedscan.experiments.comparison.grid import Run
from fedscan.experiments.corpus import partition, tokens
from fedscan.io import parquet
from fedscan.pipeline.keys import chosen
from fedscan.pipeline.runner import Log


def single_run(config: Mapping[str, Any], run: Run, code: str, folder: Path, report: Log) -> str:
    """Prepare the data, if it is not there yet, and train one run.

    Args:
        config: the whole configuration.
        run: what to train.
        code: fingerprint of the training code.
        folder: receives tokens/, partition/, run/ and, while running, checkpoints/.
        report: the job's log.

    Returns:
        One line with the outcome.
    """
    job, domains = run.job, config["partition"]["settings"][run.job.setting]
    sizes = {k: v for k, v in config["partition"].items() if k != "settings"}
    data, tokenizer = config["data"], config["tokenizer"]
    sections = {
        "data": chosen(data, data["source"]),
        "tokenizer": chosen(tokenizer, tokenizer["name"]),
        "partition": sizes,
    }
    tokens.run({**sections, "domains": sorted(domains)}, str(folder / "tokens"), report)
    held = {
        "domains": domains,
        "clients": job.clients,
        "beta": job.beta,
        "train_val_split": sizes["train_val_split"],
    }
    partition.run(held, str(folder / "tokens"), str(folder / "partition"), report)
    settings = {
        "job": job._asdict(),
        "values": [dict(run.hyperparameters)],
        "training": config["training"],
        "model": config["model"],
        "data_source": config["data"]["source"],
        "tokenizer": config["tokenizer"]["name"],
        "code": code,
        **config["workflow"],
    }
    results = str(folder / "run")
    federated.run(settings, str(folder / "partition"), results, f"{folder}/checkpoints", report)
    (row,) = parquet.read(folder / "run/runs.parquet", "runs").to_pylist()
    if row["status"] == "failed":
        return f"FAILED: {row['failure']}; {row['rounds']} rounds in {results}"
    return (
        f"{job.algorithm} {run.value}: train ppl {row['train_ppl']:.2f}, val ppl"
        f" {row['val_ppl']:.2f}, last-10 {row['val_ppl_last10']:.2f} per {row['tokenizer']} token,"
        f" {row['data_source']} text; tables in {results}"
    )
