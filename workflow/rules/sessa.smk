from fedscan.experiments.sessa import grid as sessa_grid
from fedscan.experiments.sessa import plan as sessa

SESSA = CONFIG["sessa"]
SESSA_FILES = sessa.files(CONFIG)
SESSA_FIGURES = figures(sessa.ROOM, "sessa/tables")
SESSA_GPU = 1 if SESSA["training"]["device"] == "cuda" else 0
# A part that is switched off is asked for by nobody.
SESSA_FEDERATED = SESSA["federated"] or {"mixers": [], "algorithms": []}
SESSA_MIXERS = {*SESSA["models"]["mixers"], *SESSA_FEDERATED["mixers"]}
SESSA_JOB = "task={sessa_task}/mixer={sessa_mixer}"
SESSA_EXAMPLES = "results/sessa/data/task={sessa_task}/sessa_examples.parquet"


wildcard_constraints:
    sessa_task="|".join(sessa_grid.tasks(SESSA)),
    sessa_mixer="|".join(sorted(SESSA_MIXERS)),
    sessa_algorithm="|".join(SESSA_FEDERATED["algorithms"]) or "none",


rule sessa_data:
    input:
        lambda w: sessa.data_files(CONFIG, w.sessa_task),
    output:
        examples=SESSA_EXAMPLES,
        vocabulary="results/sessa/data/task={sessa_task}/vocabulary.json",
    log:
        "results/logs/sessa/data/{sessa_task}.log",
    benchmark:
        "results/benchmarks/sessa_data/task={sessa_task}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        key=lambda w: stage_key(
            STAGES["sessa_data"], sessa.sessa_data(CONFIG, w.sessa_task)
        ),
    message:
        "Sequences of task {wildcards.sessa_task}"
    script:
        "../scripts/run_stage.py"


rule sessa_training:
    input:
        examples=SESSA_EXAMPLES,
    output:
        **{
            table.name.removeprefix("sessa_"): update(
                f"results/sessa/training/{SESSA_JOB}/{table.name}.parquet"
            )
            for table in sessa.TRAINING_TABLES
        },
    log:
        f"results/logs/sessa/training/{SESSA_JOB}.log",
    benchmark:
        f"results/benchmarks/sessa_training/{SESSA_JOB}.tsv"
    conda:
        "../../environment.yml"
    threads: SESSA["training"]["threads"]
    resources:
        mem_mb=4000,
        runtime=1440,
        gpu=SESSA_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["sessa_training"],
            sessa.sessa_training(CONFIG, w.sessa_task, w.sessa_mixer),
        ),
    message:
        "{wildcards.sessa_mixer} on {wildcards.sessa_task}"
    script:
        "../scripts/run_stage.py"


rule sessa_diagnostics:
    input:
        examples=SESSA_EXAMPLES,
        runs=f"results/sessa/training/{SESSA_JOB}/sessa_runs.parquet",
    output:
        **{
            table.name.removeprefix("sessa_"): update(
                f"results/sessa/diagnostics/{SESSA_JOB}/{table.name}.parquet"
            )
            for table in sessa.DIAGNOSTIC_TABLES
        },
    log:
        f"results/logs/sessa/diagnostics/{SESSA_JOB}.log",
    benchmark:
        f"results/benchmarks/sessa_diagnostics/{SESSA_JOB}.tsv"
    conda:
        "../../environment.yml"
    threads: SESSA["training"]["threads"]
    resources:
        mem_mb=4000,
        runtime=480,
        gpu=SESSA_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["sessa_diagnostics"],
            sessa.sessa_diagnostics(CONFIG, w.sessa_task, w.sessa_mixer),
        ),
    message:
        "What reaches how far: {wildcards.sessa_mixer} on {wildcards.sessa_task}"
    script:
        "../scripts/run_stage.py"


rule sessa_federated:
    input:
        examples=SESSA_EXAMPLES,
    output:
        **{
            table.name.removeprefix("sessa_federated_"): update(
                f"results/sessa/federated/{SESSA_JOB}/algorithm={{sessa_algorithm}}/{table.name}.parquet"
            )
            for table in sessa.FEDERATED_TABLES
        },
    log:
        f"results/logs/sessa/federated/{SESSA_JOB}/algorithm={{sessa_algorithm}}.log",
    benchmark:
        f"results/benchmarks/sessa_federated/{SESSA_JOB}/algorithm={{sessa_algorithm}}.tsv"
    conda:
        "../../environment.yml"
    threads: SESSA["training"]["threads"]
    resources:
        mem_mb=4000,
        runtime=1440,
        gpu=SESSA_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["sessa_federated"],
            sessa.sessa_federated(
                CONFIG, w.sessa_task, w.sessa_mixer, w.sessa_algorithm
            ),
            sessa.federated_choices(w.sessa_algorithm),
        ),
    message:
        "{wildcards.sessa_algorithm}: {wildcards.sessa_mixer} on {wildcards.sessa_task}"
    script:
        "../scripts/run_stage.py"


rule sessa_theory:
    output:
        claims=update("results/sessa/theory/sessa_claims.parquet"),
        retrieval=update("results/sessa/theory/sessa_retrieval.parquet"),
    log:
        "results/logs/sessa/theory.log",
    benchmark:
        "results/benchmarks/sessa_theory.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        key=stage_key(STAGES["sessa_theory"], sessa.sessa_theory(CONFIG)),
    message:
        "Random instances of the feedback loop beside what is claimed of them"
    script:
        "../scripts/run_stage.py"


rule sessa_speed:
    output:
        "results/sessa/speed/sessa_speed.parquet",
    log:
        "results/logs/sessa/speed.log",
    benchmark:
        "results/benchmarks/sessa_speed.tsv"
    conda:
        "../../environment.yml"
    threads: SESSA["training"]["threads"]
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=SESSA_GPU,
    params:
        key=stage_key(STAGES["sessa_speed"], sessa.sessa_speed(CONFIG)),
    message:
        "Speed of the compared blocks on this machine"
    script:
        "../scripts/run_stage.py"


rule sessa:
    input:
        [
            f"results/{file}"
            for name in sessa.PARTS
            for files in SESSA_FILES[name].values()
            for file in files
        ],
    output:
        numbers=multiext("results/sessa/tables/numbers", ".parquet", ".csv"),
        numbers_text=report(
            "results/sessa/tables/numbers.txt",
            caption="../report/sessa.rst",
            category="Sessa",
        ),
        summary=report(
            "results/sessa/tables/summary.txt",
            caption="../report/sessa.rst",
            category="Sessa",
        ),
        png=report(
            expand("results/sessa/tables/{name}.png", name=SESSA_FIGURES),
            caption="../report/sessa.rst",
            category="Sessa",
        ),
        svg=expand("results/sessa/tables/{name}.svg", name=SESSA_FIGURES),
    log:
        "results/logs/sessa/sessa.log",
    benchmark:
        "results/benchmarks/sessa.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=stage_key(STAGES["sessa"], sessa.sessa(CONFIG)),
    message:
        "Sessa: tables and figures"
    script:
        "../scripts/run_stage.py"
