"""Settings and files of the corpus's stages. No torch: the Snakefile reads it."""

import itertools
from collections.abc import Mapping
from typing import Any

from fedscan.experiments.corpus.grid import PartitionAxes, partition_path
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import chosen, without

SPLITS = ("train", "validation")


def partitions(config: Config) -> dict[str, PartitionAxes]:
    """Return the partitions that the studies train on.

    Args:
        config: the whole configuration.

    Returns:
        Folder below results/partition -> axes, in sorted order.
    """
    axes = sorted(
        {
            PartitionAxes(setting, float(beta), clients)
            for study in config["studies"].values()
            for setting, beta, clients in itertools.product(
                study["settings"], study["betas"], study["clients"]
            )
        }
    )
    return {partition_path(*one): one for one in axes}


def partition_files(setting: str, beta: str, clients: str) -> list[str]:
    """Return the files of a partition that training reads.

    Args:
        setting: name of the domain assignment.
        beta: heterogeneity, as in the path.
        clients: number of clients, as in the path.

    Returns:
        A file per split.
    """
    path = f"setting={setting}/beta={beta}/clients={clients}"
    return [f"results/partition/{path}/{split}.parquet" for split in SPLITS]


def domains(config: Config) -> list[str]:
    """Return the domains that the studies' settings name.

    Args:
        config: the whole configuration.

    Returns:
        In sorted order: it decides the order in which synthetic documents are made.
    """
    settings = config["partition"]["settings"]
    used = {setting for study in config["studies"].values() for setting in study["settings"]}
    return sorted({domain for setting in used for domain in settings[setting]})


def tokens(config: Config, wanted: list[str]) -> dict[str, Any]:
    """Return the settings of stage ``tokens``.

    Args:
        config: the whole configuration.
        wanted: domains to collect.

    Returns:
        What it uses.
    """
    return {
        "data": chosen(config["data"], config["data"]["source"]),
        "tokenizer": chosen(config["tokenizer"], config["tokenizer"]["name"]),
        "partition": without(config["partition"], "settings"),
        "domains": wanted,
    }


def tokens_choices(config: Config) -> dict[str, str]:
    """Return which source and tokenizer count in the fingerprint of stage ``tokens``.

    Args:
        config: the whole configuration.

    Returns:
        Registry package -> member.
    """
    name = config["tokenizer"]["name"]
    return {
        "fedscan.data.sources": config["data"]["source"],
        "fedscan.data.tokenizers": {"bytes": "byte_values"}.get(name, name),
    }


def partition(config: Config, axes: PartitionAxes) -> dict[str, Any]:
    """Return the settings of stage ``partition``.

    Args:
        config: the whole configuration.
        axes: of the partition.

    Returns:
        What it uses.
    """
    return {
        "domains": config["partition"]["settings"][axes.setting],
        "clients": axes.clients,
        "beta": axes.beta,
        "train_val_split": config["partition"]["train_val_split"],
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    packed = [f"domain={domain}/{split}" for domain in domains(config) for split in SPLITS]
    names = ("partition", *SPLITS)
    return {
        "tokens": {"tokens": [f"tokens/{name}.parquet" for name in packed]},
        "partition": {
            f"partition/{path}": [f"partition/{path}/{name}.parquet" for name in names]
            for path in partitions(config)
        },
    }


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the corpus's checks.

    Args:
        config: the whole configuration.

    Returns:
        Folders of the partitions.
    """
    return {"partitions": list(partitions(config))}
