SHAPE = "D={d_input}/N={d_state}"


rule teachers:
    output:
        teachers=f"results/teachers/{SHAPE}/teachers.parquet",
        candidates=f"results/teachers/{SHAPE}/candidates.parquet",
        sequences=f"results/teachers/{SHAPE}/teacher_sequences.parquet",
    log:
        f"results/logs/teachers/{SHAPE}.log",
    benchmark:
        f"results/benchmarks/teachers/{SHAPE}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        key=shape_key(
            "teachers",
            **{
                name: SYNTHETIC[name]
                for name in (
                    "rhos",
                    "sequence_length",
                    "burn_in",
                    "train_sequences",
                    "test_sequences",
                )
            },
        ),
    message:
        "Searching teachers with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/teachers.py"


rule learners:
    input:
        rules.teachers.output,
    output:
        learners=update(f"results/learners/{SHAPE}/learners.parquet"),
        checkpoints=update(f"results/learners/{SHAPE}/checkpoints.parquet"),
    log:
        f"results/logs/learners/{SHAPE}.log",
    benchmark:
        f"results/benchmarks/learners/{SHAPE}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        key=shape_key(
            "learners",
            sequence_length=SYNTHETIC["sequence_length"],
            learners=without(SYNTHETIC["learners"], "bound_checkpoints"),
            rerun_on_code_change=CONFIG["workflow"]["rerun_on_code_change"],
        ),
    message:
        "Training learners with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/learners.py"


rule evaluation:
    input:
        teachers=rules.teachers.output,
        learners=rules.learners.output.checkpoints,
    output:
        points=f"results/evaluation/{SHAPE}/points.parquet",
        gradients=f"results/evaluation/{SHAPE}/gradients.parquet",
        curvature=f"results/evaluation/{SHAPE}/curvature.parquet",
        trajectories=f"results/evaluation/{SHAPE}/trajectories.parquet",
        violations=f"results/evaluation/{SHAPE}/violations.parquet",
    log:
        f"results/logs/evaluation/{SHAPE}.log",
    benchmark:
        f"results/benchmarks/evaluation/{SHAPE}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=1 if SYNTHETIC["evaluation"]["kernels"] == "triton" else 0,
    params:
        key=shape_key(
            "evaluation",
            sequence_length=SYNTHETIC["sequence_length"],
            learners={
                name: SYNTHETIC["learners"][name]
                for name in ("seeds", "updates", "bound_checkpoints")
            },
            evaluation=SYNTHETIC["evaluation"],
        ),
    message:
        "Checking gradients and curvature with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/evaluation.py"


rule stacks:
    input:
        expand(
            rules.teachers.output,
            d_input=SYNTHETIC["stacks"]["d_input"],
            d_state=SYNTHETIC["stacks"]["d_state"],
        ),
    output:
        stacks="results/stacks/stacks.parquet",
        violations="results/stacks/violations.parquet",
    log:
        "results/logs/stacks.log",
    benchmark:
        "results/benchmarks/stacks.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=stage_key(
            "stacks",
            sequence_length=SYNTHETIC["sequence_length"],
            learners={
                name: SYNTHETIC["learners"][name]
                for name in ("seeds", "lr", "batch_size")
            },
            evaluation=SYNTHETIC["evaluation"],
            stacks=SYNTHETIC["stacks"],
        ),
    message:
        "Checking the bounds of stacks of layers"
    script:
        "../scripts/stacks.py"


BOUND_FIGURES = ["2a", "2b", "2c", "2d", "3", "4a", "4b", "5", "9"]


rule bounds:
    input:
        teachers=of_shapes(f"results/teachers/{SHAPE}/teachers.parquet"),
        learners=of_shapes(f"results/learners/{SHAPE}/learners.parquet"),
        evaluation=[
            path
            for table in ("points", "gradients", "curvature", "trajectories")
            for path in of_shapes(f"results/evaluation/{SHAPE}/{table}.parquet")
        ],
        stacks=rules.stacks.output.stacks,
    output:
        table="results/bounds/numbers.parquet",
        csv="results/bounds/numbers.csv",
        text="results/bounds/numbers.txt",
        summary=report(
            "results/bounds/summary.txt",
            caption="../report/bounds.rst",
            category="Bounds",
        ),
        png=report(
            expand("results/bounds/figure{number}.png", number=BOUND_FIGURES),
            caption="../report/bounds.rst",
            category="Bounds",
        ),
        svg=expand("results/bounds/figure{number}.svg", number=BOUND_FIGURES),
    log:
        "results/logs/bounds.log",
    benchmark:
        "results/benchmarks/bounds.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        key=stage_key("bounds", shapes=SHAPES),
    message:
        "Bounds against measurements: tables and figures"
    script:
        "../scripts/bounds.py"
