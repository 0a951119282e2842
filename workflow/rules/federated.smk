rule federated:
    input:
        partition_files,
    output:
        runs=update(f"results/federated/{JOB_PATTERN}/runs.parquet"),
        rounds=update(f"results/federated/{JOB_PATTERN}/rounds.parquet"),
        clients=update(f"results/federated/{JOB_PATTERN}/clients.parquet"),
        mixers=update(f"results/federated/{JOB_PATTERN}/mixers.parquet"),
        heads=update(f"results/federated/{JOB_PATTERN}/heads.parquet"),
    log:
        f"results/logs/federated/{JOB_PATTERN}.log",
    benchmark:
        f"results/benchmarks/federated/{JOB_PATTERN}.tsv"
    conda:
        "../../environment.yml"
    threads: CONFIG["training"]["threads"]
    resources:
        mem_mb=8000,
        runtime=720,
        gpu=1 if CONFIG["training"]["device"] == "cuda" else 0,
    params:
        key=federated_key,
    message:
        "Training {wildcards.algorithm}: setting {wildcards.setting}, beta {wildcards.beta}, depth {wildcards.depth}, E {wildcards.local_steps}, seed {wildcards.seed}"
    script:
        "../scripts/federated.py"
