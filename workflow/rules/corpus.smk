from fedscan.data.sources.local import find_files
from fedscan.experiments.corpus import plan as corpus
from fedscan.experiments.corpus.grid import partition_path

DOMAINS = corpus.domains(CONFIG)
PARTITIONS = corpus.partitions(CONFIG)
try:
    DATA_FILES = (
        find_files(CONFIG["data"]["local"]["paths"])
        if CONFIG["data"]["source"] == "local"
        else []
    )
except ValueError as error:
    raise WorkflowError(f"the configuration is not valid:\n{error}")


rule tokens:
    input:
        DATA_FILES,
    output:
        # The first output names the stage's folder.
        documents="results/tokens/documents.parquet",
        manifest="results/tokens/manifest.json",
        packed=expand(
            "results/tokens/domain={domain}/{split}.parquet",
            domain=DOMAINS,
            split=corpus.SPLITS,
        ),
    log:
        "results/logs/tokens.log",
    benchmark:
        "results/benchmarks/tokens.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        key=stage_key(
            STAGES["tokens"],
            corpus.tokens(CONFIG, DOMAINS),
            corpus.tokens_choices(CONFIG),
        ),
        total=len(DOMAINS),
    message:
        "Reading, tokenising and packing the documents of {params.total} domains"
    script:
        "../scripts/run_stage.py"


rule partition:
    input:
        tokens=rules.tokens.output,
    output:
        table="results/partition/setting={setting}/beta={beta}/clients={clients}/partition.parquet",
        train="results/partition/setting={setting}/beta={beta}/clients={clients}/train.parquet",
        validation="results/partition/setting={setting}/beta={beta}/clients={clients}/validation.parquet",
    log:
        "results/logs/partition/setting={setting}/beta={beta}/clients={clients}.log",
    benchmark:
        "results/benchmarks/partition/setting={setting}/beta={beta}/clients={clients}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        key=lambda w: stage_key(
            STAGES["partition"],
            corpus.partition(
                CONFIG, PARTITIONS[partition_path(w.setting, w.beta, w.clients)]
            ),
        ),
    message:
        "Partitioning setting {wildcards.setting}, beta {wildcards.beta}, {wildcards.clients} clients"
    script:
        "../scripts/run_stage.py"
