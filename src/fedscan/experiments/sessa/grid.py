"""From the section ``sessa`` to tasks, models and runs. No torch: the Snakefile reads it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedscan.data.associative_recall import SPECIAL
from fedscan.data.stories.sequences import BYTES
from fedscan.data.symbol_soup import FIRST_CLASS
from fedscan.labels import combinations, label
from fedscan.models.sequence_shape import SequenceShape, matched

Section = Mapping[str, Any]
# Whose models have the embedding as head.
TIED = {"stories"}
# Compared at equal width, as the field's table of it is.
EQUAL_WIDTH = {"recall"}


class Unit(NamedTuple):
    """One central run of a task and a mixer; columns of the same names."""

    width: int
    seed: int
    lr: float

    @property
    def name(self) -> str:
        """Canonical spelling, a part of files' names."""
        return f"width={self.width},seed={self.seed},lr={label(self.lr)}"


class FederatedUnit(NamedTuple):
    """One federated run of a task, mixer and algorithm; columns of the same names."""

    value: str
    beta: float
    gain_limit: float | None
    seed: int

    @property
    def name(self) -> str:
        """Canonical spelling, a part of files' names."""
        limit = "none" if self.gain_limit is None else label(self.gain_limit)
        return f"{self.value},beta={label(self.beta)},gain_limit={limit},seed={self.seed}"


def tasks(sessa: Section) -> list[str]:
    """Return the tasks that are switched on.

    Args:
        sessa: section ``sessa``.

    Returns:
        Names.
    """
    return [name for name, section in sessa["tasks"].items() if section is not None]


def widths(sessa: Section, task: str) -> list[int]:
    """Return the widths of sessa that a task is trained at.

    Args:
        sessa: section ``sessa``.
        task: its name.

    Returns:
        Channels.
    """
    found: list[int] = sessa["tasks"][task].get("widths") or [sessa["models"]["d_model"]]
    return found


def vocabulary(sessa: Section, task: str) -> int:
    """Return how many ids a task has; of a trained tokenizer, as many as are asked for.

    Args:
        sessa: section ``sessa``.
        task: its name.
    """
    section = sessa["tasks"][task]
    if task == "soup":
        blanks = 2 if section["separators"] == "published" else 0
        return int(FIRST_CLASS + section["left_styles"] * section["right_styles"] + blanks)
    if task == "mqar":
        return int(SPECIAL + section["keys"] + section["values"])
    if task == "recall":
        return int(section["vocabulary"])
    return BYTES + 1 if section["tokenizer"] == "bytes" else int(section["vocab_size"])


def asked_shape(sessa: Section, task: str, mixer: str, width: int, size: int) -> SequenceShape:
    """Return the shape of a model before its width is matched.

    Args:
        sessa: section ``sessa``.
        task: decides whether the head is the embedding.
        mixer: kind of layer.
        width: of sessa.
        size: ids of the vocabulary.
    """
    models = sessa["models"]
    return SequenceShape(
        mixer, size, width, models["depth"], models["heads"],
        models["forward_heads"] or models["heads"], models["form"], models["gain_max"],
        models["d_state"], models["headdim"], task in TIED,
    )  # fmt: skip


def shape(sessa: Section, task: str, mixer: str, width: int) -> SequenceShape:
    """Return the shape of a compared model.

    Args:
        sessa: section ``sessa``.
        task: its name.
        mixer: kind of layer.
        width: of sessa.

    Returns:
        With the width and state size that match sessa's parameters, if that is asked for.
    """
    asked = asked_shape(sessa, task, mixer, width, vocabulary(sessa, task))
    models = sessa["models"]
    if models["match"] == "none" or task in EQUAL_WIDTH:
        return asked
    return matched(asked, models["match_tolerance"])


def units(sessa: Section, task: str) -> list[Unit]:
    """Return the central runs of a task, the same for every mixer.

    Args:
        sessa: section ``sessa``.
        task: its name.

    Returns:
        Widths, seeds, learning rates.
    """
    training = sessa["training"]
    return [
        Unit(width, seed, float(lr))
        for width in widths(sessa, task)
        for seed in training["seeds"]
        for lr in training["lrs"]
    ]


def federated_units(
    federated: Section, algorithm: str
) -> list[tuple[FederatedUnit, tuple[tuple[str, Any], ...]]]:
    """Return the federated runs of a task, mixer and algorithm.

    Args:
        federated: section ``sessa.federated``.
        algorithm: its name.

    Returns:
        Runs with their hyperparameters.
    """
    return [
        (FederatedUnit(value, float(beta), limit, seed), pairs)
        for value, pairs in combinations(federated["hyperparameters"][algorithm] or {})
        for beta in federated["betas"]
        for limit in federated["gain_limits"]
        for seed in federated["seeds"]
    ]
