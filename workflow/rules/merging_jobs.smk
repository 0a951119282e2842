from fedscan.experiments.merging import grid as merging_grid
from fedscan.data.tasks.definition import definitions

MERGING = CONFIG["merging"]
BASES = {name: base for name, base in MERGING["bases"].items() if base is not None}
TUNING = MERGING["fine_tuning"]
SUBSETS = {merging_grid.subset(seed): seed for seed in (None, *MERGING["seeds"])}
SUBSET = "results/merging/tasks/task={task}/subset={subset}"
BASE = "results/merging/bases/base={base}"
SPECIALIST = "base={base}/task={task}/seed={merging_seed}"
MERGES = "base={base}/seed={merging_seed}"
# What decides a number on a device; part of a result's identity.
MACHINE = {name: MERGING[name] for name in ("precision", "device", "threads")}


wildcard_constraints:
    base="|".join(BASES),
    task="|".join(MERGING["tasks"]),
    subset="|".join(SUBSETS),
    merging_seed=r"\d+",


def task_files(wildcards):
    """The file that a subset of local data is read from."""
    if MERGING["source"] != "local":
        return []
    split = "train" if SUBSETS[wildcards.subset] is not None else "evaluation"
    return [Path(MERGING["local"][wildcards.task][split]).expanduser()]


def task_data_key(wildcards):
    seed = SUBSETS[wildcards.subset]
    split = "evaluation" if seed is None else "train"
    source = MERGING["source"]
    own = MERGING[source]
    if source == "local":
        own = {wildcards.task: own[wildcards.task]}
    return stage_key(
        "task_data",
        task=wildcards.task,
        # Prompts and labels are data, which the code's fingerprint does not see.
        definition=definitions()[wildcards.task],
        split=split,
        seed=MERGING["evaluation_seed"] if seed is None else seed,
        cap=MERGING[f"{split}_cap"],
        source=source,
        own=own,
        tokenizer=chosen(CONFIG["tokenizer"], CONFIG["tokenizer"]["name"]),
        max_tokens=MERGING["max_tokens"],
        reserved_tokens=MERGING["reserved_tokens"],
    )


def is_federated(wildcards):
    return BASES[wildcards.base]["checkpoint"] == "federated"


def base_files(wildcards):
    """What a base is made from; what is fetched from the hub is no file here."""
    if is_federated(wildcards):
        return expand("results/federated/{job}/runs.parquet", job=JOBS)
    folder = Path(BASES[wildcards.base]["checkpoint"]).expanduser()
    return sorted(
        path
        for pattern in ("config.json", "*.safetensors", "*.index.json", "*.bin")
        for path in folder.glob(pattern)
    )


def merging_base_key(wildcards):
    jobs = {"jobs": list(JOBS)} if is_federated(wildcards) else {}
    return stage_key(
        "merging_base",
        origin=BASES[wildcards.base]["checkpoint"],
        precision=MERGING["precision"],
        tokenizer=chosen(CONFIG["tokenizer"], CONFIG["tokenizer"]["name"]),
        **jobs,
    )


def specialists_key(wildcards):
    return stage_key(
        "specialists",
        task=wildcards.task,
        seed=int(wildcards.merging_seed),
        batch_size=BASES[wildcards.base]["batch_size"],
        fine_tuning=TUNING,
        rerun_on_code_change=CONFIG["workflow"]["rerun_on_code_change"],
        **MACHINE,
    )


def evaluated(stage, wildcards, **values):
    """The key of a stage that evaluates models of a base."""
    return stage_key(
        stage,
        base=wildcards.base,
        tasks=MERGING["tasks"],
        mus=TUNING["mus"],
        checkpoint_epochs=TUNING["checkpoint_epochs"],
        evaluation_batch_size=MERGING["evaluation_batch_size"],
        rerun_on_code_change=CONFIG["workflow"]["rerun_on_code_change"],
        **MACHINE,
        **values,
    )


def specialist_accuracy_key(wildcards):
    return evaluated("specialist_accuracy", wildcards, seeds=MERGING["seeds"])


def merges_key(wildcards):
    return evaluated(
        "merges",
        wildcards,
        seed=int(wildcards.merging_seed),
        operators=MERGING["operators"],
        gradient_examples=MERGING["gradient_examples"],
    )


EVALUATION_SETS = expand(
    "results/merging/tasks/task={task}/subset=evaluation/{table}.parquet",
    task=MERGING["tasks"],
    table=["examples", "labels"],
)
