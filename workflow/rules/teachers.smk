from fedscan.experiments.teachers import plan as bank

SHAPE = "D={d_input}/N={d_state}"


wildcard_constraints:
    d_input=r"\d+",
    d_state=r"\d+",


def of_shapes(pattern):
    """The files of every (D, N)."""
    return [pattern.format(d_input=d, d_state=n) for d, n in bank.shapes(CONFIG)]


def shape_key(stage, settings):
    """The key of a rule that has one job per (D, N)."""

    def key(wildcards):
        shape = (int(wildcards.d_input), int(wildcards.d_state))
        return stage_key(STAGES[stage], settings(CONFIG, *shape))

    return key


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
        key=shape_key("teachers", bank.teachers),
    message:
        "Searching teachers with D={wildcards.d_input}, N={wildcards.d_state}"
    script:
        "../scripts/run_stage.py"
