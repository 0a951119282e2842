rule compare:
    input:
        runs=expand("results/federated/{job}/runs.parquet", job=JOBS),
        rounds=expand("results/federated/{job}/rounds.parquet", job=JOBS),
    output:
        runs="results/compare/all_runs.parquet",
        rounds="results/compare/all_rounds.parquet",
        table="results/compare/comparison.parquet",
        csv="results/compare/comparison.csv",
        numbers=multiext("results/compare/numbers", ".parquet", ".csv"),
        numbers_text=report(
            "results/compare/numbers.txt",
            caption="../report/comparison.rst",
            category="Comparison",
        ),
        text=report(
            "results/compare/comparison.txt",
            caption="../report/comparison.rst",
            category="Comparison",
        ),
        png=report(
            "results/compare/validation_curves.png",
            caption="../report/validation_curves.rst",
            category="Comparison",
        ),
        svg="results/compare/validation_curves.svg",
    log:
        "results/logs/compare.log",
    benchmark:
        "results/benchmarks/compare.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=stage_key("compare", studies=CONFIG["studies"]),
        total=len(RUNS),
    message:
        "Comparing {params.total} runs"
    script:
        "../scripts/compare.py"
