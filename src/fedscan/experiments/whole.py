"""Settings and files of the two stages that belong to no experiment, and files of all of them."""

from typing import Any

from fedscan.experiments.registry import EXPERIMENTS, STAGES
from fedscan.io.provenance import code_fingerprint, data_fingerprint, digest
from fedscan.pipeline.experiment import Config


def check(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``check``, its code included.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    checked = [e for e in EXPERIMENTS if e.checks and e.checked]
    modules = [e.checks for e in checked if e.checks]
    return {
        "code": code_fingerprint(STAGES["check"].module, *modules),
        "experiments": [[e.checks, e.checked(config)] for e in checked if e.checked],
    }


def verified(config: Config) -> list[str]:
    """Return the files that stage ``check`` reads.

    Args:
        config: the whole configuration.

    Returns:
        Paths from the project's folder.
    """
    found = files(config)
    rules = [rule for e in EXPERIMENTS for rule in e.verified]
    return [f"results/{file}" for rule in rules for job in found[rule].values() for file in job]


def html_report(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``html_report``, its code included.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    packages = {e.name: f"fedscan.experiments.{e.name}" for e in EXPERIMENTS}
    pages = [e.page for e in EXPERIMENTS if e.page]
    return {
        "code": code_fingerprint(STAGES["html_report"].module, *pages),
        # Captions, template, style: data that no fingerprint of code covers.
        "data": digest([data_fingerprint(p) for p in ("fedscan.report", *packages.values())]),
        "config": config,
        "rooms": [[packages[e.name], e.page or "", e.reruns] for e in EXPERIMENTS],
    }


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done, of every rule.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job, named by its folder below results/ -> its files below results/.
    """
    found = {
        rule: {job: list(made) for job, made in jobs.items()}
        for experiment in EXPERIMENTS
        for rule, jobs in experiment.files(config).items()
    }
    return found | {
        "check": {"check": ["check/checks.parquet"]},
        "html_report": {"report": ["report/index.html"]},
    }
