TOKENS_KEY = stage_key(
    "tokens",
    choices={
        "fedscan.data.sources": CONFIG["data"]["source"],
        "fedscan.data.tokenizers": {"bytes": "byte_values"}.get(
            CONFIG["tokenizer"]["name"], CONFIG["tokenizer"]["name"]
        ),
    },
    data=chosen(CONFIG["data"], CONFIG["data"]["source"]),
    tokenizer=chosen(CONFIG["tokenizer"], CONFIG["tokenizer"]["name"]),
    partition={k: v for k, v in CONFIG["partition"].items() if k != "settings"},
    domains=DOMAINS,
)


rule tokens:
    input:
        DATA_FILES,
    output:
        expand(
            "results/tokens/domain={domain}/{split}.parquet",
            domain=DOMAINS,
            split=SPLITS,
        ),
        documents="results/tokens/documents.parquet",
        manifest="results/tokens/manifest.json",
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
        key=TOKENS_KEY,
        total=len(DOMAINS),
    message:
        "Reading, tokenising and packing the documents of {params.total} domains"
    script:
        "../scripts/tokens.py"


rule partition:
    input:
        tables=rules.tokens.output,
        manifest=rules.tokens.output.manifest,
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
        key=partition_key,
    message:
        "Partitioning setting {wildcards.setting}, beta {wildcards.beta}, {wildcards.clients} clients"
    script:
        "../scripts/partition.py"
