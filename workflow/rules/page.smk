rule html_report:
    input:
        [getattr(rules, target).output for e in EXPERIMENTS for target in e.targets],
        rules.check.output,
    output:
        report(
            "results/report/index.html",
            caption="../report/page.rst",
            category="The whole page",
        ),
    log:
        "results/logs/html_report.log",
    benchmark:
        "results/benchmarks/html_report.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        key=canonical_json(whole.html_report(CONFIG)),
    message:
        "Writing the page a browser opens: results/report/index.html"
    script:
        "../scripts/run_stage.py"
