CELL = f"{SHAPE}/rho={{rho}}"


rule students:
    input:
        rules.teachers.output,
    output:
        runs=update(f"results/students/{CELL}/student_runs.parquet"),
        rounds=update(f"results/students/{CELL}/student_rounds.parquet"),
        violations=update(f"results/students/{CELL}/violations.parquet"),
    log:
        f"results/logs/students/{CELL}.log",
    benchmark:
        f"results/benchmarks/students/{CELL}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=120,
    params:
        key=students_key,
    message:
        "Federated learners on the teacher with D={wildcards.d_input}, N={wildcards.d_state}, rho={wildcards.rho}"
    script:
        "../scripts/students.py"


STUDENT_FIGURES = ["6a", "6b", "6c", "7", "8a", "8b"]


rule student_tables:
    input:
        expand(
            "results/students/{cell}/{table}.parquet",
            cell=CELLS,
            table=["student_runs", "student_rounds"],
        ),
    output:
        runs="results/student_tables/all_student_runs.parquet",
        table="results/student_tables/numbers.parquet",
        csv="results/student_tables/numbers.csv",
        text="results/student_tables/numbers.txt",
        summary=report(
            "results/student_tables/summary.txt",
            caption="../report/students.rst",
            category="Federated learners",
        ),
        png=report(
            expand(
                "results/student_tables/figure{number}.png", number=STUDENT_FIGURES
            ),
            caption="../report/students.rst",
            category="Federated learners",
        ),
        svg=expand("results/student_tables/figure{number}.svg", number=STUDENT_FIGURES),
    log:
        "results/logs/student_tables.log",
    benchmark:
        "results/benchmarks/student_tables.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        key=stage_key("student_tables", cells=[list(cell) for cell in STUDENTS]),
    message:
        "Federated learners against theory: tables and figures"
    script:
        "../scripts/student_tables.py"
