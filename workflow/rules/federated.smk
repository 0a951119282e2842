def federated_job(wildcards):
    return "/".join(f"{key}={getattr(wildcards, field)}" for key, field in grid.PATH_KEYS)


def federated_key(wildcards):
    runs = JOBS[federated_job(wildcards)]
    return stage_key(
        "federated",
        choices={"fedscan.federated.algorithms": wildcards.algorithm},
        job=runs[0].job._asdict(),
        values=[dict(run.hyperparameters) for run in runs],
        training=CONFIG["training"],
        model=CONFIG["model"],
        data_source=CONFIG["data"]["source"],
        tokenizer=CONFIG["tokenizer"]["name"],
        **CONFIG["workflow"],
    )


def partition_files(wildcards):
    path = grid.partition_path(wildcards.setting, wildcards.beta, wildcards.clients)
    return [f"results/partition/{path}/{name}.parquet" for name in ("train", "validation")]


rule federated:
    message:
        "Training {wildcards.algorithm}: setting {wildcards.setting}, beta {wildcards.beta}, depth {wildcards.depth}, E {wildcards.local_steps}, seed {wildcards.seed}"
    input:
        partition_files,
    output:
        runs=update(f"results/federated/{JOB_PATTERN}/runs.parquet"),
        rounds=update(f"results/federated/{JOB_PATTERN}/rounds.parquet"),
        clients=update(f"results/federated/{JOB_PATTERN}/clients.parquet"),
    log:
        f"results/logs/federated/{JOB_PATTERN}.log",
    benchmark:
        f"results/benchmarks/federated/{JOB_PATTERN}.tsv"
    threads: CONFIG["training"]["threads"]
    resources:
        mem_mb=8000,
        runtime=720,
        gpu=1 if CONFIG["training"]["device"] == "cuda" else 0,
    params:
        key=federated_key,
    conda:
        "../../environment.yml"
    script:
        "../scripts/federated.py"
