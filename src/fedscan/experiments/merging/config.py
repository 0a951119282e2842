"""The part of the configuration that describes one-shot merging (paper, Appendices F, G.5, H.3)."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Len
from pydantic import Field

from fedscan.config.types import (
    Count,
    Grid,
    Momentum,
    Name,
    NonNegative,
    Positive,
    Problem,
    Section,
    Seed,
    Share,
    Threads,
)

TaskName = Literal["ag_news", "dbpedia_14", "trec", "imdb"]
Density = Annotated[float, Field(gt=0, le=1)]


class SyntheticTasks(Section):
    """Made-up tasks with the labels and templates of the real ones."""

    train_pool: Count = Field(description="records per task to choose training examples from")
    evaluation_pool: Count = Field(
        description="records per task to choose evaluation examples from"
    )


class TaskFiles(Section):
    """The user's files for one task."""

    train: str = Field(description=".csv, .jsonl or .parquet with the task's fields and 'label'")
    evaluation: str = Field(description="the same, of the evaluation split")


class TaskHub(Section):
    """The four datasets of the Hugging Face hub; data/tasks/tasks.json names them."""

    folder: str | None = Field(
        description="folder with copies laid out as on the hub, <folder>/<namespace>/<name>;"
        " null: the hub itself"
    )


class Base(Section):
    """A model that specialists start from."""

    checkpoint: str = Field(
        description="'federated': the best global model of this configuration's runs; or a folder"
        " or hub id with a Mamba2 checkpoint of mamba_ssm or transformers"
    )
    batch_size: Count = Field(description="training examples per step")
    paper_checkpoint: Literal["Mamba2-130M", "Mamba2-370M", "Mamba2-780M"] | None = Field(
        description="checkpoint of the paper whose numbers are put beside this base's"
    )


class FineTuning(Section):
    """How specialists are trained (paper, Table 16)."""

    epochs: Count = Field(description="epochs the schedule is made for")
    checkpoint_epochs: Grid[Count] = Field(description="epochs after which specialists are merged")
    lr: Positive = Field(description="peak AdamW learning rate")
    adam_betas: Annotated[list[Momentum], Len(2, 2)] = Field(description="AdamW beta1, beta2")
    adam_eps: Positive = Field(description="AdamW epsilon")
    weight_decay: NonNegative = Field(description="AdamW decoupled weight decay")
    clip_norm: Positive = Field(description="global gradient norm above which steps are clipped")
    warmup_share: Share = Field(description="share of all steps with linear warm-up; then cosine")
    mus: Grid[NonNegative] = Field(
        description="coefficients of mu/2 ||theta - theta_0||^2; 0 is the reference"
    )


class TaskArithmetic(Section):
    """theta_0 + lambda sum of task vectors."""

    scales: Grid[Positive] = Field(description="lambda; 1 / number of tasks is the average")


class Ties(Section):
    """theta_0 + lambda times the trimmed, sign-elected mean of task vectors."""

    scales: Grid[Positive] = Field(description="lambda")
    densities: Grid[Density] = Field(
        description="share d of largest magnitudes kept per task vector"
    )


class Operators(Section):
    """What is swept; averaging has no values and is always there."""

    task_arithmetic: TaskArithmetic
    ties: Ties


class Merging(Section):
    """One-shot merging of task specialists."""

    source: Literal["synthetic", "local", "huggingface"] = Field(
        description="where labelled records come from"
    )
    tasks: Grid[TaskName] = Field(description="tasks, one specialist each; their order is kept")
    synthetic: SyntheticTasks
    local: dict[TaskName, TaskFiles] = Field(
        description="task -> its files; used by source 'local' only"
    )
    huggingface: TaskHub
    max_tokens: Annotated[int, Ge(8)] = Field(description="tokens of prompt and label at most")
    reserved_tokens: Annotated[int, Ge(2)] = Field(
        description="tokens of these kept for the template's tail and the label"
    )
    train_cap: Count = Field(description="training examples per task at most, chosen by seed")
    evaluation_cap: Count = Field(description="evaluation examples per task at most")
    evaluation_seed: Seed = Field(
        description="seed of the evaluation subset, the same for all runs"
    )
    seeds: Grid[Seed] = Field(description="root seeds of training subset and order of batches")
    bases: Annotated[dict[Name, Base | None], Len(min_length=1)] = Field(
        description="name -> base model; null takes one away that another file has"
    )
    fine_tuning: FineTuning
    operators: Operators
    gradient_examples: Count = Field(
        description="evaluation examples per task on which f and its gradient are measured"
    )
    evaluation_batch_size: Count = Field(description="prompts per forward pass of an evaluation")
    precision: Literal["float32", "bfloat16"] = Field(
        description="dtype of stored models and autocast of passes; the optimiser stays float32"
    )
    device: Literal["cpu", "cuda"] = Field(description="device of fine-tuning and evaluation")
    threads: Threads = Field(description="CPU threads per job; part of a result's identity")


def rules(config: Any) -> Iterator[Problem]:
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


def _fine_tuning(config: Any) -> Iterator[Problem]:
    tuning, where = config.merging.fine_tuning, ("merging", "fine_tuning")
    for index, epoch in enumerate(tuning.checkpoint_epochs):
        if epoch > tuning.epochs:
            message = f"must not exceed merging.fine_tuning.epochs = {tuning.epochs}"
            yield (*where, "checkpoint_epochs", index), epoch, message
    if 0.0 not in tuning.mus:
        message = "must contain 0: task arithmetic and TIES merge specialists without proximal term"
        yield (*where, "mus"), tuning.mus, message
