from snakemake.utils import min_version

min_version("9.27.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/partition.smk"
include: "workflow/rules/federated.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/synthetic.smk"
include: "workflow/rules/students.smk"
include: "workflow/rules/merging_jobs.smk"
include: "workflow/rules/merging.smk"
include: "workflow/rules/check.smk"
include: "workflow/rules/html_report.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        rules.compare.output,
        rules.practice.output,
        rules.bounds.output,
        rules.student_tables.output,
        rules.merging.output,
        rules.check.output,
        rules.html_report.output,
        # Named here, not only as inputs of compare: a deleted table is then made again.
        expand("results/federated/{job}/runs.parquet", job=JOBS),
        missing_tables(),
    message:
        "Everything is there: open results/report/index.html in a browser"
