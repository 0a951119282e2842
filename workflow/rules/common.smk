import json
import os
import re
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

try:
    from fedscan import config_analysis, config_files, grid, student_grid
    from fedscan.data.sources.local import find_files
    from fedscan.io.provenance import canonical_json, code_fingerprint, data_fingerprint
    from fedscan.stages.expected import JOB_TABLES
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{error}: install the package first: pip install -c constraints.txt -e ."
    )

STARTED = time.time()
# Jobs inherit it. Jupyter's, which what it starts inherits, is not installed here: matplotlib then
# fails to import. Figures are made without a backend.
os.environ.pop("MPLBACKEND", None)
# In merge order: Snakemake lists files of the command line before the default they override.
CONFIG_FILES = sorted(
    map(str, workflow.configfiles), key=lambda name: name != "config/config.yaml"
)
try:
    # Read again, not Snakemake's `config`: there 1 and "1" are two keys, and every number inside
    # an entry of --config is text.
    CONFIG = config_files.load(
        CONFIG_FILES, workflow.config_settings.config_args
    ).model_dump(mode="json")
    # What scripts see of it.
    config.clear()
    config.update(CONFIG)
    DATA_FILES = (
        find_files(CONFIG["data"]["local"]["paths"])
        if CONFIG["data"]["source"] == "local"
        else []
    )
except ValueError as error:
    raise WorkflowError(f"the configuration is not valid:\n{error}")

RUNS = grid.runs(CONFIG["studies"])
JOBS = grid.jobs(RUNS)
LABELS = grid.labels(RUNS)
SPLITS = ["train", "validation"]
SETTINGS = CONFIG["partition"]["settings"]
# In a fixed order: it decides the order in which synthetic documents are made.
DOMAINS = sorted({domain for run in RUNS for domain in SETTINGS[run.job.setting]})
JOB_PATTERN = grid.path_pattern()
PARTITIONS = {
    grid.partition_path(j.setting, j.beta, j.clients): j
    for j in (members[0].job for members in JOBS.values())
}


PAPER = config_analysis.compared_settings(CONFIG)
# Captions and order of the page: data of the package, which no code fingerprint covers.
REPORT_SECTIONS = data_fingerprint("fedscan.report")
SYNTHETIC = CONFIG["synthetic"]
STUDENTS = student_grid.student_runs(SYNTHETIC)
CELLS = {student_grid.cell_path(cell): cell for cell in STUDENTS}
RHO_LABELS = [grid.label(rho) for rho in SYNTHETIC["rhos"]]
SHAPES = [(d, n) for d in SYNTHETIC["d_input"] for n in SYNTHETIC["d_state"]]


wildcard_constraints:
    **{field: "|".join(map(re.escape, labels)) for field, labels in LABELS.items()},
    d_input=r"\d+",
    d_state=r"\d+",
    rho="|".join(map(re.escape, RHO_LABELS)),


onerror:
    # When a job that adds to its tables fails, Snakemake restores them and forgets its record of
    # them, so that it would take them for finished: made older than their inputs, they are not.
    for job in workflow.dag.needrun_jobs():
        for file in job.output:
            if is_flagged(file, "update") and os.path.exists(file):
                os.utime(file, (1, 1))


def chosen(section, name):
    """The keys of a section, without those of the variants that are not chosen."""
    return {k: v for k, v in section.items() if k == name or not isinstance(v, dict)}


def stage_key(stage, choices=None, **values):
    """One canonical string per rule: exactly the keys it uses, their values, its code."""
    code = code_fingerprint(f"fedscan.stages.{stage}", choices)
    return canonical_json({"code": code, **values})


def partition_of(wildcards):
    return grid.partition_path(wildcards.setting, wildcards.beta, wildcards.clients)


def partition_key(wildcards):
    job = PARTITIONS[partition_of(wildcards)]
    return stage_key(
        "partition",
        domains=SETTINGS[job.setting],
        clients=job.clients,
        beta=job.beta,
        train_val_split=CONFIG["partition"]["train_val_split"],
    )


def partition_files(wildcards):
    path = partition_of(wildcards)
    return [f"results/partition/{path}/{split}.parquet" for split in SPLITS]


def missing_tables():
    """The tables that are missing beside a job's ``runs.parquet``, which is written last."""
    folders = [Path("results/federated", path) for path in JOBS]
    names = [f"{table}.parquet" for table in JOB_TABLES]
    return [
        str(folder / name)
        for folder in folders
        if (folder / "runs.parquet").exists()
        for name in names
        if not (folder / name).exists()
    ]


def federated_key(wildcards):
    runs = JOBS[JOB_PATTERN.format(**wildcards)]
    return stage_key(
        "federated",
        choices={"fedscan.federated.algorithms": wildcards.algorithm},
        job=runs[0].job._asdict(),
        values=[dict(run.hyperparameters) for run in runs],
        training=CONFIG["training"],
        model=CONFIG["model"],
        data_source=CONFIG["data"]["source"],
        tokenizer=CONFIG["tokenizer"]["name"],
        **{
            name: CONFIG["workflow"][name]
            for name in ("rerun_on_code_change", "keep_final_model")
        },
    )


def of_shapes(pattern):
    """The files of every (D, N)."""
    return [pattern.format(d_input=d, d_state=n) for d, n in SHAPES]


def shape_key(stage, **values):
    """The key of a rule that has one job per (D, N)."""

    def key(wildcards):
        shape = {"d_input": int(wildcards.d_input), "d_state": int(wildcards.d_state)}
        return stage_key(stage, **shape, **values)

    return key


def without(section, *names):
    return {k: v for k, v in section.items() if k not in names}


def student_code(algorithm):
    return code_fingerprint(
        "fedscan.stages.students", {"fedscan.federated.algorithms": algorithm}
    )


def students_key(wildcards):
    path = f"D={wildcards.d_input}/N={wildcards.d_state}/rho={wildcards.rho}"
    cell, federated = CELLS[path], SYNTHETIC["federated"]
    runs = STUDENTS[cell]
    codes = {
        algorithm: student_code(algorithm)
        for algorithm in {run.algorithm for run in runs}
    }
    return canonical_json(
        {
            **cell._asdict(),
            "runs": [list(run) for run in runs],
            "codes": codes,
            "sequence_length": SYNTHETIC["sequence_length"],
            "lr": SYNTHETIC["learners"]["lr"],
            "batch_size": SYNTHETIC["learners"]["batch_size"],
            "rerun_on_code_change": CONFIG["workflow"]["rerun_on_code_change"],
            **{
                name: federated[name] for name in ("rounds", "evaluate_every", "subset")
            },
        }
    )
