"""Settings and files of the stages on consensus. No torch: the Snakefile reads it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedscan.declared import shown
from fedscan.experiments.comparison import grid
from fedscan.experiments.consensus.grid import FEDERATED
from fedscan.experiments.corpus import plan as corpus
from fedscan.experiments.merging import plan as merging_plan
from fedscan.io.provenance import code_fingerprint, data_fingerprint
from fedscan.models.architecture import MAMBA2
from fedscan.models.backbones import BACKBONES
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only

ROOM = "fedscan.experiments.consensus"
# What an iteration on a machine depends on, besides tokens, draws and depth.
MACHINE = ("seed", "source", "precision", "device", "threads", "draws_per_batch")

# Tables of a model, in the order of their outputs; the first is written last.
MODEL_TABLES = (
    "consensus_curves", "consensus_windows", "consensus_minima", "consensus_layers",
    "consensus_model",
)  # fmt: skip
# Rules that the summary is made from.
PARTS = ("consensus_model", "consensus_runs", "consensus_merging", "consensus_theory")


def models(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return the models that are switched on.

    Args:
        config: the whole configuration.

    Returns:
        Name -> its section.
    """
    return {name: m for name, m in config["consensus"]["models"].items() if m is not None}


def variants(config: Config, names: Sequence[str] | None = None) -> dict[str, Mapping[str, Any]]:
    """Return the variants that are switched on.

    Args:
        config: the whole configuration.
        names: which of them; None: all.

    Returns:
        Name -> its section.
    """
    on = {name: v for name, v in config["consensus"]["variants"].items() if v is not None}
    return on if names is None else {name: on[name] for name in names}


def mamba2_jobs(config: Config) -> list[str]:
    """Return the training jobs whose models have no attention.

    Args:
        config: the whole configuration.

    Returns:
        Folders below results/federated.
    """
    jobs = grid.jobs(grid.runs(config["studies"]))
    return [
        path
        for path, (run, *_) in jobs.items()
        if set(BACKBONES[run.job.backbone](run.job.depth)) == {MAMBA2}
    ]


def model_files(config: Config, model: str) -> list[str]:
    """Return what a model is read from; what is fetched from the hub is no file here.

    Args:
        config: the whole configuration.
        model: its name.

    Returns:
        Tables of the runs, or the files of a local checkpoint that are there; and text, if any.
    """
    checkpoint = models(config)[model]["checkpoint"]
    if checkpoint == FEDERATED:
        found = [f"results/federated/{job}/runs.parquet" for job in mamba2_jobs(config)]
    else:
        place = Path(checkpoint).expanduser()
        patterns = merging_plan.CHECKPOINT_FILES
        inside = sorted(str(path) for pattern in patterns for path in place.glob(pattern))
        found = [str(place)] if place.is_file() else inside
    return [*found, *_text_files(config)]


def _text_files(config: Config) -> list[str]:
    file = text(config)
    return [] if file is None else [f"results/{file}"]


def text(config: Config) -> str | None:
    """Return the validation text that tokens of source 'text' are taken from.

    Args:
        config: the whole configuration.

    Returns:
        The first partition's file, below results/; None for source 'uniform'.
    """
    if config["consensus"]["source"] != "text":
        return None
    return f"partition/{next(iter(corpus.partitions(config)))}/validation.parquet"


def consensus_model(config: Config, model: str) -> dict[str, Any]:
    """Return the settings of stage ``consensus_model``.

    Args:
        config: the whole configuration.
        model: its name.

    Returns:
        What it uses.
    """
    consensus, section = config["consensus"], models(config)[model]
    federated = section["checkpoint"] == FEDERATED
    return {
        "name": model,
        "model": section,
        **({"jobs": mamba2_jobs(config)} if federated else {}),
        **only(consensus, *MACHINE, "tokens", "draws", "depth", "random"),
        "variants": variants(config),
        "text": text(config),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }


def runs_of_study(config: Config) -> dict[str, list[grid.Run]]:
    """Return the jobs whose models stage ``consensus_runs`` looks at.

    Args:
        config: the whole configuration.

    Returns:
        Folder below results/federated -> its runs; empty if the part is switched off.
    """
    runs = config["consensus"]["runs"]
    if runs is None:
        return {}
    return grid.jobs(grid.runs({runs["study"]: config["studies"][runs["study"]]}))


def runs_files(config: Config) -> list[str]:
    """Return what stage ``consensus_runs`` reads.

    Args:
        config: the whole configuration.

    Returns:
        Tables of the jobs and, of source 'text', validation text of their partitions.
    """
    jobs = runs_of_study(config)
    found = [f"results/federated/{job}/runs.parquet" for job in jobs]
    if config["consensus"]["source"] == "text":
        found += [f"results/partition/{path}/validation.parquet" for path in _partitions(config)]
    return found


def _partitions(config: Config) -> list[str]:
    runs = config["consensus"]["runs"]
    return list(corpus.partitions({"studies": {"": config["studies"][runs["study"]]}}))


def consensus_runs(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``consensus_runs``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    consensus = config["consensus"]
    section = consensus["runs"]
    return {
        "jobs": [
            {"path": path, "axes": runs[0].job._asdict(), "values": [run.value for run in runs]}
            for path, runs in runs_of_study(config).items()
        ],
        "model": config["model"],
        **only(consensus, *MACHINE),
        **only(section, "rounds", "tokens", "draws", "depth"),
        "variants": variants(config, section["variants"]),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }


def merging_files(config: Config) -> list[str]:
    """Return what stage ``consensus_merging`` reads.

    Args:
        config: the whole configuration.

    Returns:
        Bases, specialists and merges; no file if the part is switched off.
    """
    if config["consensus"]["merging"] is None:
        return []
    made = merging_plan.files(config)
    found = [
        f"results/{file}"
        for rule in ("merging_base", "specialists", "merges")
        for files in made[rule].values()
        for file in files
        if not file.endswith(("displacements.parquet", "task_vectors.parquet"))
    ]
    return [*found, *_text_files(config)]


def consensus_merging(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``consensus_merging``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    consensus, merging = config["consensus"], config["merging"]
    section = consensus["merging"]
    return {
        "bases": list(merging_plan.bases(config)),
        **only(merging, "seeds", "tasks"),
        "epoch": max(merging["fine_tuning"]["checkpoint_epochs"]),
        "text": text(config),
        **only(consensus, *MACHINE),
        **only(section, "merges", "tokens", "draws", "depth"),
        "variants": variants(config, section["variants"]),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }


def consensus_theory(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``consensus_theory``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {
        "seed": config["consensus"]["seed"],
        **config["consensus"]["theory"],
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }


def consensus(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``consensus``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    section = config["consensus"]
    return {
        "models": list(models(config)),
        "variants": variants(config),
        **only(section, "tokens", "draws", "depth", "source", "random"),
        "runs": section["runs"],
        "merging": section["merging"],
        "text": {"source": config["data"]["source"], "tokenizer": config["tokenizer"]["name"]},
        # Data that no fingerprint of code covers.
        "published": data_fingerprint(f"{ROOM}.published"),
        "declared": shown(),
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    section, root = config["consensus"], "consensus"
    found: dict[str, dict[str, Sequence[str]]] = {
        "consensus_model": {f"{root}/models/model={name}": MODEL_TABLES for name in models(config)},
        "consensus_runs": {},
        "consensus_merging": {},
        "consensus_theory": {f"{root}/theory": ["consensus_instances"]},
        "consensus": {f"{root}/tables": ["numbers"]},
    }
    if section["runs"] is not None:
        study = section["runs"]["study"]
        found["consensus_runs"] = {f"{root}/runs/study={study}": ["consensus_runs"]}
    if section["merging"] is not None:
        found["consensus_merging"] = {f"{root}/merging": ["consensus_merges"]}
    return {
        rule: {job: [f"{job}/{name}.parquet" for name in tables] for job, tables in jobs.items()}
        for rule, jobs in found.items()
    }


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Models, variants, draws.
    """
    section = config["consensus"]
    counted = {"models": len(models(config)), "variants": len(variants(config))}
    counted["draws"] = section["draws"]
    if section["runs"] is not None:
        counted["federated models"] = sum(
            len(runs) * len([r for r in section["runs"]["rounds"] if r])
            for runs in runs_of_study(config).values()
        )
    theory = section["theory"]
    kernels = sum(
        len(theory["anisotropies"]) if kernel == "definite" else 1 for kernel in theory["kernels"]
    )
    return {**counted, "random instances": kernels * theory["instances"]}


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the checks on consensus.

    Args:
        config: the whole configuration.

    Returns:
        What was asked for, and the fingerprint per stage.
    """
    section = config["consensus"]
    stages = {"models": "models", "runs": "runs", "merging": "merges"}
    choices = grid.mixer_choices(config["studies"])
    runs = section["runs"]
    return {
        "models": list(models(config)),
        "variants": variants(config),
        **only(section, "draws", "depth", "tokens", "random", "theory"),
        "study": None if runs is None else runs["study"],
        "runs": 0 if runs is None else sum(len(found) for found in runs_of_study(config).values()),
        "rounds": [] if runs is None else [r for r in runs["rounds"] if r],
        "run_variants": [] if runs is None else runs["variants"],
        "merging": section["merging"] is not None,
        "codes": {
            name: code_fingerprint(f"{ROOM}.{module}", choices=choices)
            for name, module in stages.items()
        }
        | {"theory": code_fingerprint(f"{ROOM}.theory_study")},
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }
