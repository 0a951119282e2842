COMPARE_FIGURES = ["validation_curves", "change_heat_map", "tuned_values"]
COMPARE_FIGURES += ["client_count"] if CONFIG["analysis"]["client_count"] else []
COMPARE_FIGURES += ["backbones"] if CONFIG["analysis"]["backbone"] else []


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
            expand("results/compare/{figure}.png", figure=COMPARE_FIGURES),
            caption="../report/comparison_figures.rst",
            category="Comparison",
        ),
        svg=expand("results/compare/{figure}.svg", figure=COMPARE_FIGURES),
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
        key=stage_key(
            "compare",
            paper=PAPER,
            published=PUBLISHED,
            **{
                name: CONFIG[name]
                for name in ("studies", "analysis", "training", "model")
            },
        ),
        total=len(RUNS),
    message:
        "Comparing {params.total} runs"
    script:
        "../scripts/compare.py"


rule practice:
    input:
        # Text: beside another rule's output objects Snakemake hashes the whole list of an input
        # for each of its files, which takes minutes for thousands.
        table=str(rules.compare.output.table),
        runs=str(rules.compare.output.runs),
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
            expand("results/practice/{figure}.png", figure=["ordering", "movement"]),
            caption="../report/practice.rst",
            category="Theory in practice",
        ),
        svg=expand("results/practice/{figure}.svg", figure=["ordering", "movement"]),
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
        key=stage_key(
            "practice", studies=CONFIG["studies"], analysis=CONFIG["analysis"]
        ),
        total=len(RUNS),
    message:
        "Joining what theory measures with what came of {params.total} runs"
    script:
        "../scripts/practice.py"
