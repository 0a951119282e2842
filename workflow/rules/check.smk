rule check:
    input:
        whole.verified(CONFIG),
    output:
        "results/check/checks.parquet",
    log:
        "results/logs/check.log",
    benchmark:
        "results/benchmarks/check.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=canonical_json(whole.check(CONFIG)),
    message:
        "Checking partitions, row counts, rounds, bounds and fingerprints"
    script:
        "../scripts/run_stage.py"


onsuccess:
    # Only what this run made: a partial target does not remake every table.
    for experiment in EXPERIMENTS:
        for name in experiment.summaries:
            table = Path("results", name)
            if table.exists() and table.stat().st_mtime > STARTED:
                print(table.read_text(encoding="utf-8"), file=sys.stderr)
