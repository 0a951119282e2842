from fedscan.experiments.students import grid as student_grid
from fedscan.experiments.students import plan as students

STUDENTS = student_grid.student_runs(CONFIG["synthetic"])
CELLS = {student_grid.cell_path(cell): cell for cell in STUDENTS}
CELL = f"{SHAPE}/rho={{rho}}"
STUDENT_FIGURES = figures(students.ROOM, "student_tables")


wildcard_constraints:
    rho="|".join(re.escape(label(rho)) for rho in CONFIG["synthetic"]["rhos"]),


rule students:
    input:
        teachers=rules.teachers.output,
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
        # Its code is in its settings, an algorithm at a time.
        key=lambda w: canonical_json(
            students.students(
                CONFIG, CELLS[CELL.format(**w)], STUDENTS[CELLS[CELL.format(**w)]]
            )
        ),
    message:
        "Federated learners on the teacher with D={wildcards.d_input}, N={wildcards.d_state}, rho={wildcards.rho}"
    script:
        "../scripts/run_stage.py"


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
            expand("results/student_tables/{name}.png", name=STUDENT_FIGURES),
            caption="../report/students.rst",
            category="Federated learners",
        ),
        svg=expand("results/student_tables/{name}.svg", name=STUDENT_FIGURES),
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
        key=stage_key(STAGES["student_tables"], students.student_tables(CONFIG)),
    message:
        "Federated learners against theory: tables and figures"
    script:
        "../scripts/run_stage.py"
