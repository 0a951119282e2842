from snakemake.utils import min_version

min_version("9.27.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


for experiment in EXPERIMENTS:

    include: f"workflow/rules/{experiment.name}.smk"


include: "workflow/rules/check.smk"
include: "workflow/rules/page.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        [getattr(rules, target).output for e in EXPERIMENTS for target in e.targets],
        rules.check.output,
        rules.html_report.output,
        # Named here, not only as inputs of compare: a deleted table is then made again.
        expand("results/federated/{job}/runs.parquet", job=JOBS),
        comparison.missing_tables(JOBS),
    message:
        "Everything is there: open results/report/index.html in a browser"
