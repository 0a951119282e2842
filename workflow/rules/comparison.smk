from fedscan.experiments.comparison import grid
from fedscan.experiments.comparison import plan as comparison

RUNS = grid.runs(CONFIG["studies"])
JOBS = grid.jobs(RUNS)
# What reads models of runs depends on their kinds of layers, and on no other's code.
MIXER_CHOICES = grid.mixer_choices(CONFIG["studies"])
JOB_PATTERN = grid.path_pattern()


wildcard_constraints:
    **{
        field: "|".join(map(re.escape, labels))
        for field, labels in grid.labels(RUNS).items()
    },


rule federated:
    input:
        partition=lambda w: corpus.partition_files(w.setting, w.beta, w.clients),
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
        key=lambda w: stage_key(
            STAGES["federated"],
            comparison.federated(CONFIG, JOBS[JOB_PATTERN.format(**w)]),
            comparison.federated_choices(JOBS[JOB_PATTERN.format(**w)]),
        ),
    message:
        "Training {wildcards.algorithm}: setting {wildcards.setting}, beta {wildcards.beta}, depth {wildcards.depth}, E {wildcards.local_steps}, seed {wildcards.seed}"
    script:
        "../scripts/run_stage.py"


rule compare:
    input:
        # One table stands for the five of a job: they are written together, this one last. All
        # of them, here and in the rules below, would be 29,000 files to look up in every plan.
        runs=expand("results/federated/{job}/runs.parquet", job=JOBS),
        partitions=expand("results/partition/{path}/partition.parquet", path=PARTITIONS),
    output:
        runs="results/compare/all_runs.parquet",
        rounds="results/compare/all_rounds.parquet",
        table="results/compare/comparison.parquet",
        csv="results/compare/comparison.csv",
        numbers=multiext("results/compare/numbers", ".parquet", ".csv"),
        numbers_text=report(
            "results/compare/numbers.txt",
            caption="../report/numbers.rst",
            category="Comparison",
            labels={"what": "numbers beside the paper's"},
        ),
        text=report(
            "results/compare/comparison.txt",
            caption="../report/comparison.rst",
            category="Comparison",
            labels={"what": "algorithms per configuration"},
        ),
        png=report(
            expand(
                "results/compare/{figure}.png",
                figure=comparison.compare_figures(CONFIG),
            ),
            caption="../report/comparison_figures.rst",
            category="Comparison",
        ),
        svg=expand(
            "results/compare/{figure}.svg", figure=comparison.compare_figures(CONFIG)
        ),
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
        key=stage_key(STAGES["compare"], comparison.compare(CONFIG)),
        total=len(RUNS),
    message:
        "Comparing {params.total} runs"
    script:
        "../scripts/run_stage.py"


rule practice:
    input:
        # Text: beside another rule's output objects Snakemake hashes the whole list of an input
        # for each of its files, which takes minutes for thousands.
        compared=[
            str(rules.compare.output.table),
            str(rules.compare.output.runs),
        ],
    output:
        quantities="results/practice/quantities.parquet",
        table="results/practice/numbers.parquet",
        csv="results/practice/numbers.csv",
        text=report(
            "results/practice/numbers.txt",
            caption="../report/practice.rst",
            category="Theory in practice",
            labels={"what": "how well each quantity orders the algorithms"},
        ),
        png=report(
            expand(
                "results/practice/{figure}.png",
                figure=figures(comparison.ROOM, "practice"),
            ),
            caption="../report/practice.rst",
            category="Theory in practice",
        ),
        svg=expand(
            "results/practice/{figure}.svg",
            figure=figures(comparison.ROOM, "practice"),
        ),
    log:
        "results/logs/practice.log",
    benchmark:
        "results/benchmarks/practice.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        key=stage_key(STAGES["practice"], comparison.practice(CONFIG)),
        total=len(RUNS),
    message:
        "Joining what theory measures with what came of {params.total} runs"
    script:
        "../scripts/run_stage.py"
