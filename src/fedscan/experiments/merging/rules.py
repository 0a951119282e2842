"""Rules between keys of the section ``merging``."""

from collections.abc import Iterator
from typing import Any

from fedscan.config.compose import Config

Problem = tuple[tuple[str | int, ...], Any, str]


def merging_problems(config: Config) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    merging = config.merging
    if merging.reserved_tokens >= merging.max_tokens:
        message = f"must be less than merging.max_tokens = {merging.max_tokens}"
        yield ("merging", "reserved_tokens"), merging.reserved_tokens, message
    if merging.source == "local":
        for task in merging.tasks:
            if task not in merging.local:
                message = f"source 'local' needs the files of {task!r}: add merging.local.{task}"
                yield ("merging", "local"), sorted(merging.local), message
    yield from _fine_tuning(config)
    if not any(merging.bases.values()):
        message = "at least one base is needed"
        yield ("merging", "bases"), sorted(merging.bases), message
    for name, base in merging.bases.items():
        if (
            base is not None
            and base.checkpoint == "federated"
            and (not config.workflow.keep_final_model)
        ):
            message = "'federated' needs the runs' models: set workflow.keep_final_model: true"
            yield ("merging", "bases", name, "checkpoint"), base.checkpoint, message


def _fine_tuning(config: Config) -> Iterator[Problem]:
    tuning, where = config.merging.fine_tuning, ("merging", "fine_tuning")
    for index, epoch in enumerate(tuning.checkpoint_epochs):
        if epoch > tuning.epochs:
            message = f"must not exceed merging.fine_tuning.epochs = {tuning.epochs}"
            yield (*where, "checkpoint_epochs", index), epoch, message
    if 0.0 not in tuning.mus:
        message = "must contain 0: task arithmetic and TIES merge specialists without proximal term"
        yield (*where, "mus"), tuning.mus, message
