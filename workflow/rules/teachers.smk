from fedscan.experiments.teachers import plan as bank

SHAPE = "D={d_input}/N={d_state}"


wildcard_constraints:
    d_input=r"\d+",
    d_state=r"\d+",


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
        key=lambda w: stage_key(
            STAGES["teachers"],
            bank.teachers(CONFIG, int(w.d_input), int(w.d_state)),
        ),
    message:
        "Searching teachers with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/run_stage.py"
