from fedscan.experiments.consensus import plan as consensus

CONSENSUS = CONFIG["consensus"]
CONSENSUS_FILES = consensus.files(CONFIG)
CONSENSUS_FIGURES = figures(consensus.ROOM, "consensus/tables")
# A part that is switched off is asked for by nobody.
CONSENSUS_STUDY = (CONSENSUS["runs"] or {"study": "none"})["study"]
CONSENSUS_GPU = 1 if CONSENSUS["device"] == "cuda" else 0


wildcard_constraints:
    consensus_model="|".join(consensus.models(CONFIG)),


rule consensus_model:
    input:
        lambda w: consensus.model_files(CONFIG, w.consensus_model),
    output:
        **{
            name.removeprefix("consensus_"): update(
                f"results/consensus/models/model={{consensus_model}}/{name}.parquet"
            )
            for name in consensus.MODEL_TABLES
        },
    log:
        "results/logs/consensus/models/{consensus_model}.log",
    benchmark:
        "results/benchmarks/consensus_model/model={consensus_model}.tsv"
    conda:
        "../../environment.yml"
    threads: CONSENSUS["threads"]
    resources:
        mem_mb=4000,
        runtime=1440,
        gpu=CONSENSUS_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["consensus_model"],
            consensus.consensus_model(CONFIG, w.consensus_model),
            MIXER_CHOICES,
        ),
    message:
        "Layers of {wildcards.consensus_model} over depth"
    script:
        "../scripts/run_stage.py"


rule consensus_runs:
    input:
        lambda w: consensus.runs_files(CONFIG),
    output:
        update(f"results/consensus/runs/study={CONSENSUS_STUDY}/consensus_runs.parquet"),
    log:
        "results/logs/consensus/runs.log",
    benchmark:
        "results/benchmarks/consensus_runs.tsv"
    conda:
        "../../environment.yml"
    threads: CONSENSUS["threads"]
    resources:
        mem_mb=4000,
        runtime=1440,
        gpu=CONSENSUS_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["consensus_runs"],
            consensus.consensus_runs(CONFIG),
            MIXER_CHOICES,
        ),
    message:
        "Federated models over depth"
    script:
        "../scripts/run_stage.py"


rule consensus_merging:
    input:
        lambda w: consensus.merging_files(CONFIG),
    output:
        update("results/consensus/merging/consensus_merges.parquet"),
    log:
        "results/logs/consensus/merging.log",
    benchmark:
        "results/benchmarks/consensus_merging.tsv"
    conda:
        "../../environment.yml"
    threads: CONSENSUS["threads"]
    resources:
        mem_mb=8000,
        runtime=1440,
        gpu=CONSENSUS_GPU,
    params:
        key=lambda w: stage_key(
            STAGES["consensus_merging"],
            consensus.consensus_merging(CONFIG),
            MIXER_CHOICES,
        ),
    message:
        "Merged models over depth"
    script:
        "../scripts/run_stage.py"


rule consensus_theory:
    output:
        update("results/consensus/theory/consensus_instances.parquet"),
    log:
        "results/logs/consensus/theory.log",
    benchmark:
        "results/benchmarks/consensus_theory.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        key=stage_key(STAGES["consensus_theory"], consensus.consensus_theory(CONFIG)),
    message:
        "Random instances of the analysed system beside their theorems"
    script:
        "../scripts/run_stage.py"


rule consensus:
    input:
        [
            f"results/{file}"
            for name in consensus.PARTS
            for files in CONSENSUS_FILES[name].values()
            for file in files
        ],
    output:
        numbers=multiext("results/consensus/tables/numbers", ".parquet", ".csv"),
        numbers_text=report(
            "results/consensus/tables/numbers.txt",
            caption="../report/consensus.rst",
            category="Consensus over depth",
        ),
        summary=report(
            "results/consensus/tables/summary.txt",
            caption="../report/consensus.rst",
            category="Consensus over depth",
        ),
        png=report(
            expand("results/consensus/tables/{name}.png", name=CONSENSUS_FIGURES),
            caption="../report/consensus.rst",
            category="Consensus over depth",
        ),
        svg=expand("results/consensus/tables/{name}.svg", name=CONSENSUS_FIGURES),
    log:
        "results/logs/consensus/consensus.log",
    benchmark:
        "results/benchmarks/consensus.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        key=stage_key(STAGES["consensus"], consensus.consensus(CONFIG)),
    message:
        "Consensus over depth: tables and figures"
    script:
        "../scripts/run_stage.py"
