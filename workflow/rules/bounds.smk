from fedscan.experiments.bounds import plan as bounds

BOUND_FIGURES = figures(bounds.ROOM, "bounds")


rule learners:
    input:
        teachers=rules.teachers.output,
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
        key=lambda w: stage_key(
            STAGES["learners"],
            bounds.learners(CONFIG, int(w.d_input), int(w.d_state)),
        ),
    message:
        "Training learners with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/run_stage.py"


rule evaluation:
    input:
        teachers=rules.teachers.output,
        learners=rules.learners.output,
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
        gpu=1 if CONFIG["synthetic"]["evaluation"]["kernels"] == "triton" else 0,
    params:
        key=lambda w: stage_key(
            STAGES["evaluation"],
            bounds.evaluation(CONFIG, int(w.d_input), int(w.d_state)),
        ),
    message:
        "Checking gradients and curvature with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/run_stage.py"


rule stacks:
    input:
        teachers=expand(
            rules.teachers.output,
            d_input=CONFIG["synthetic"]["stacks"]["d_input"],
            d_state=CONFIG["synthetic"]["stacks"]["d_state"],
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
        key=stage_key(STAGES["stacks"], bounds.stacks(CONFIG)),
    message:
        "Checking the bounds of stacks of layers"
    script:
        "../scripts/run_stage.py"


rule bounds:
    input:
        teachers=bank.of_shapes(CONFIG, f"results/teachers/{SHAPE}/teachers.parquet"),
        learners=bank.of_shapes(CONFIG, f"results/learners/{SHAPE}/learners.parquet"),
        evaluation=[
            path
            for table in ("points", "gradients", "curvature", "trajectories")
            for path in bank.of_shapes(
                CONFIG, f"results/evaluation/{SHAPE}/{table}.parquet"
            )
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
            expand("results/bounds/{name}.png", name=BOUND_FIGURES),
            caption="../report/bounds.rst",
            category="Bounds",
        ),
        svg=expand("results/bounds/{name}.svg", name=BOUND_FIGURES),
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
        key=stage_key(STAGES["bounds"], bounds.bounds(CONFIG)),
    message:
        "Bounds against measurements: tables and figures"
    script:
        "../scripts/run_stage.py"
