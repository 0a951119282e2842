rule html_report:
    input:
        compare=rules.compare.output,
        practice=rules.practice.output,
        bounds=rules.bounds.output,
        students=rules.student_tables.output,
        merging=rules.merging.output,
        checks=rules.check.output,
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
        key=stage_key(
            "html_report", config=CONFIG, paper=PAPER, sections=REPORT_SECTIONS
        ),
    message:
        "Writing the page a browser opens: results/report/index.html"
    script:
        "../scripts/html_report.py"
