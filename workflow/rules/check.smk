rule check:
    input:
        # Text, see rule practice.
        runs=str(rules.compare.output.runs),
        rounds=str(rules.compare.output.rounds),
        partitions=expand("results/partition/{path}/partition.parquet", path=PARTITIONS),
        train=expand("results/partition/{path}/train.parquet", path=PARTITIONS),
        validation=expand(
            "results/partition/{path}/validation.parquet", path=PARTITIONS
        ),
        synthetic=[
            path
            for name in (
                "teachers/{}/teachers",
                "teachers/{}/teacher_sequences",
                "learners/{}/learners",
                "evaluation/{}/points",
                "evaluation/{}/curvature",
                "evaluation/{}/trajectories",
                "evaluation/{}/violations",
            )
            for path in of_shapes(f"results/{name.format(SHAPE)}.parquet")
        ],
        stacks=[str(path) for path in rules.stacks.output],
        students=expand(
            "results/students/{cell}/{table}.parquet",
            cell=CELLS,
            table=["student_runs", "student_rounds"],
        ),
        merging=rules.merging.input,
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
        key=stage_key(
            "check",
            **{name: CONFIG[name] for name in ("studies", "training", "model")},
            synthetic={
                "shapes": SHAPES,
                "rhos": SYNTHETIC["rhos"],
                "sequence_length": SYNTHETIC["sequence_length"],
                "seeds": SYNTHETIC["learners"]["seeds"],
                "bound_checkpoints": SYNTHETIC["learners"]["bound_checkpoints"],
                "students": [[*cell, len(runs)] for cell, runs in STUDENTS.items()],
                "student_codes": {
                    algorithm: student_code(algorithm)
                    for algorithm in sorted(
                        {run.algorithm for runs in STUDENTS.values() for run in runs}
                    )
                },
                "learner_code": code_fingerprint("fedscan.experiments.bounds.learners"),
                "rerun_on_code_change": CONFIG["workflow"]["rerun_on_code_change"],
            },
            merging={
                "bases": list(BASES),
                "tasks": MERGING["tasks"],
                "seeds": MERGING["seeds"],
                "mus": TUNING["mus"],
                "checkpoint_epochs": TUNING["checkpoint_epochs"],
                "operators": MERGING["operators"],
                "codes": {
                    stage: code_fingerprint(f"fedscan.stages.{stage}")
                    for stage in ("specialists", "merges")
                },
                "rerun_on_code_change": CONFIG["workflow"]["rerun_on_code_change"],
            },
            rerun_on_code_change=CONFIG["workflow"]["rerun_on_code_change"],
            training_code={
                algorithm: code_fingerprint(
                    "fedscan.experiments.comparison.training",
                    {"fedscan.federated.algorithms": algorithm},
                )
                for algorithm in LABELS["algorithm"]
            },
        ),
    message:
        "Checking partitions, row counts, rounds, bounds and fingerprints"
    script:
        "../scripts/check.py"


onsuccess:
    # Only what this run made: a partial target does not remake every table.
    for name in (
        "compare/comparison.txt",
        "bounds/summary.txt",
        "merging/tables/summary.txt",
    ):
        table = Path("results", name)
        if table.exists() and table.stat().st_mtime > STARTED:
            print(table.read_text(encoding="utf-8"), file=sys.stderr)
