from fedscan.experiments.merging import plan as merging

MERGING = CONFIG["merging"]
BASES = merging.bases(CONFIG)
SUBSET = "results/merging/tasks/task={task}/subset={subset}"
BASE = "results/merging/bases/base={base}"
SPECIALIST = "base={base}/task={task}/seed={merging_seed}"
MERGES = "base={base}/seed={merging_seed}"
MERGING_FIGURES = figures(merging.ROOM, "merging/tables")
EVALUATION_SETS = expand(
    "results/merging/tasks/task={task}/subset=evaluation/{table}.parquet",
    task=MERGING["tasks"],
    table=["examples", "labels"],
)


wildcard_constraints:
    base="|".join(BASES),
    task="|".join(MERGING["tasks"]),
    subset="|".join(merging.subsets(CONFIG)),
    merging_seed=r"\d+",


rule task_data:
    input:
        lambda w: merging.task_files(CONFIG, w.task, w.subset),
    output:
        examples=f"{SUBSET}/examples.parquet",
        labels=f"{SUBSET}/labels.parquet",
    log:
        "results/logs/merging/tasks/{task}_{subset}.log",
    benchmark:
        "results/benchmarks/task_data/task={task}/subset={subset}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        key=lambda w: stage_key(
            STAGES["task_data"], merging.task_data(CONFIG, w.task, w.subset)
        ),
    message:
        "Examples of {wildcards.task}: {wildcards.subset}"
    script:
        "../scripts/run_stage.py"


rule merging_base:
    input:
        lambda w: merging.base_files(CONFIG, w.base, JOBS),
    output:
        table=f"{BASE}/base.parquet",
        description=f"{BASE}/config.json",
        model=f"{BASE}/model.safetensors",
    log:
        "results/logs/merging/bases/{base}.log",
    benchmark:
        "results/benchmarks/merging_base/base={base}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=60,
    params:
        key=lambda w: stage_key(
            STAGES["merging_base"],
            merging.merging_base(CONFIG, w.base, list(JOBS)),
            MIXER_CHOICES,
        ),
    message:
        "The base {wildcards.base}, from which specialists start"
    script:
        "../scripts/run_stage.py"


rule specialists:
    input:
        model=f"{BASE}/model.safetensors",
        examples="results/merging/tasks/task={task}/subset=train_{merging_seed}/examples.parquet",
        labels="results/merging/tasks/task={task}/subset=train_{merging_seed}/labels.parquet",
    output:
        update(f"results/merging/specialists/{SPECIALIST}/specialists.parquet"),
    log:
        f"results/logs/merging/specialists/{SPECIALIST}.log",
    benchmark:
        f"results/benchmarks/specialists/{SPECIALIST}.tsv"
    conda:
        "../../environment.yml"
    threads: MERGING["threads"]
    resources:
        mem_mb=32000 if MERGING["device"] == "cuda" else 12000,
        runtime=2880,
        gpu=1 if MERGING["device"] == "cuda" else 0,
    params:
        key=lambda w: stage_key(
            STAGES["specialists"],
            merging.specialists(CONFIG, w.base, w.task, int(w.merging_seed)),
            MIXER_CHOICES,
        ),
    message:
        "Fine-tuning {wildcards.base} on {wildcards.task}, seed {wildcards.merging_seed}"
    script:
        "../scripts/run_stage.py"


rule specialist_accuracy:
    input:
        EVALUATION_SETS,
        f"{BASE}/model.safetensors",
        expand(
            f"results/merging/specialists/{SPECIALIST}/specialists.parquet",
            task=MERGING["tasks"],
            merging_seed=MERGING["seeds"],
            allow_missing=True,
        ),
    output:
        update("results/merging/accuracy/base={base}/specialist_accuracy.parquet"),
    log:
        "results/logs/merging/accuracy/base={base}.log",
    benchmark:
        "results/benchmarks/specialist_accuracy/base={base}.tsv"
    conda:
        "../../environment.yml"
    threads: MERGING["threads"]
    resources:
        mem_mb=32000 if MERGING["device"] == "cuda" else 12000,
        runtime=2880,
        gpu=1 if MERGING["device"] == "cuda" else 0,
    params:
        key=lambda w: stage_key(
            STAGES["specialist_accuracy"],
            merging.specialist_accuracy(CONFIG, w.base),
            MIXER_CHOICES,
        ),
    message:
        "Evaluating {wildcards.base} and its specialists on every task"
    script:
        "../scripts/run_stage.py"


rule merges:
    input:
        EVALUATION_SETS,
        f"{BASE}/model.safetensors",
        expand(
            f"results/merging/specialists/{SPECIALIST}/specialists.parquet",
            task=MERGING["tasks"],
            allow_missing=True,
        ),
    output:
        merges=update(f"results/merging/merges/{MERGES}/merges.parquet"),
        displacements=update(f"results/merging/merges/{MERGES}/displacements.parquet"),
        task_vectors=update(f"results/merging/merges/{MERGES}/task_vectors.parquet"),
    log:
        f"results/logs/merging/merges/{MERGES}.log",
    benchmark:
        f"results/benchmarks/merges/{MERGES}.tsv"
    conda:
        "../../environment.yml"
    threads: MERGING["threads"]
    resources:
        mem_mb=32000 if MERGING["device"] == "cuda" else 12000,
        runtime=2880,
        gpu=1 if MERGING["device"] == "cuda" else 0,
    params:
        key=lambda w: stage_key(
            STAGES["merges"],
            merging.merges(CONFIG, w.base, int(w.merging_seed)),
            MIXER_CHOICES,
        ),
    message:
        "Merging the specialists of {wildcards.base}, seed {wildcards.merging_seed}"
    script:
        "../scripts/run_stage.py"


rule merging:
    input:
        bases=expand(f"{BASE}/base.parquet", base=BASES),
        accuracy=expand(rules.specialist_accuracy.output, base=BASES),
        merges=expand(
            f"results/merging/merges/{MERGES}/{{table}}.parquet",
            base=BASES,
            merging_seed=MERGING["seeds"],
            table=["merges", "displacements", "task_vectors"],
        ),
    output:
        accuracy="results/merging/tables/all_specialist_accuracy.parquet",
        merges="results/merging/tables/all_merges.parquet",
        displacements="results/merging/tables/all_displacements.parquet",
        task_vectors="results/merging/tables/all_task_vectors.parquet",
        numbers=multiext("results/merging/tables/numbers", ".parquet", ".csv"),
        numbers_text=report(
            "results/merging/tables/numbers.txt",
            caption="../report/merging.rst",
            category="Model merging",
        ),
        summary=report(
            "results/merging/tables/summary.txt",
            caption="../report/merging.rst",
            category="Model merging",
        ),
        png=report(
            expand(
                "results/merging/tables/{name}.png",
                name=MERGING_FIGURES,
            ),
            caption="../report/merging.rst",
            category="Model merging",
        ),
        svg=expand("results/merging/tables/{name}.svg", name=MERGING_FIGURES),
    log:
        "results/logs/merging/merging.log",
    benchmark:
        "results/benchmarks/merging.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=stage_key(STAGES["merging"], merging.merging(CONFIG)),
    message:
        "Merging: tables and figures"
    script:
        "../scripts/run_stage.py"
