"""Model, training, the grids of federated runs, and what the analysis makes of them."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Len
from pydantic import AfterValidator, Field

from fedscan.config.algorithms import AlgorithmName, Hyperparameters
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
    SettingName,
    Share,
    Threads,
)
from fedscan.models.architecture import ATTENTION, MAMBA2
from fedscan.models.backbones import BACKBONES, UNIFORM

Backbone = Literal[tuple(BACKBONES)]  # type: ignore[valid-type]
VOCABULARY = {"bytes": 257, "gpt2": 50257}


class Model(Section):
    """The language model; names are mamba_ssm's."""

    d_model: Count = Field(description="width of the residual stream")
    d_state: Count = Field(description="state size N per head")
    d_conv: Annotated[int, Ge(2)] = Field(description="width of the causal convolution, tokens")
    expand: Count = Field(description="inner width as a multiple of d_model")
    headdim: Count = Field(description="channels per head")
    ngroups: Count = Field(description="groups of heads that share B and C")
    attention_heads: Count = Field(description="heads of an attention or Sessa mixer")
    vocab_size: Count = Field(description="rows of the embedding before padding")
    pad_vocab_size_multiple: Count = Field(description="the vocabulary is padded to a multiple")
    chunk_size: Count = Field(description="chunk length of the state-space dual algorithm, tokens")


class Training(Section):
    """The schedule all algorithms share."""

    rounds: Count = Field(description="communication rounds T")
    batch_size: Count = Field(description="sequences per local step")
    lr: Positive = Field(description="local AdamW learning rate")
    adam_betas: Annotated[list[Momentum], Len(2, 2)] = Field(description="local AdamW beta1, beta2")
    adam_eps: Positive = Field(description="local AdamW epsilon")
    weight_decay: NonNegative = Field(description="local AdamW decoupled weight decay")
    clip_norm: Positive = Field(description="global gradient norm above which steps are clipped")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        description="autocast of forward and backward; parameters stay float32;"
        " float16 (with dynamic loss scaling) needs device cuda"
    )
    eval_batch_size: Count = Field(description="sequences per validation batch")
    kernels: Literal["torch", "mamba_ssm"] = Field(
        description="'torch': this package's; 'mamba_ssm': that package's, needs device cuda"
    )
    device: Literal["cpu", "cuda"] = Field(description="device of the training jobs")
    step: Literal["eager", "cuda_graph"] = Field(
        description="'eager': a local step is launched operation by operation; 'cuda_graph': it is"
        " recorded once and launched whole, needs device cuda"
    )
    threads: Threads = Field(
        description="CPU threads per training job; part of a result's identity, since the order"
        " of sums in matrix products depends on it"
    )


class Study(Section):
    """One grid of federated runs: the product of its axes. Runs shared by studies run once."""

    backbones: Grid[Backbone] = Field(description="layer layouts")
    clients: Grid[Count] = Field(description="numbers of clients K")
    settings: Grid[SettingName] = Field(description="names from partition.settings")
    depths: Grid[Count] = Field(description="numbers of mixer layers")
    local_steps: Grid[Count] = Field(description="local steps per round E")
    betas: Grid[Share] = Field(
        description="heterogeneity: 0 equal mixture of the setting's domains, 1 only the primary"
    )
    seeds: Grid[Seed] = Field(description="root seeds of initial model and batches")
    algorithms: Grid[AlgorithmName] = Field(description="algorithms to run; fedavg is the baseline")
    hyperparameters: Hyperparameters = Field(description="values per algorithm")


class Analysis(Section):
    """Which study feeds which table, and how expectations are read."""

    grid: Name = Field(
        description="study of Tables 2 and 23-26, the correlation and the paired comparison"
    )
    client_count: Name | None = Field(description="study of Table 27; null: none")
    backbone: Name | None = Field(description="study of Table 28; null: none")
    expectation_between: Literal["homogeneous", "heterogeneous"] = Field(
        description="which column of Table 2 holds for 0 < beta < 1, where the paper prints none"
    )
    similar_percent: NonNegative = Field(
        description="a change against FedAvg of at most this many percent counts as similar"
    )


T = TypeVar("T")


def _switched_on(studies: dict[str, T | None]) -> dict[str, T]:
    """Drop studies that a later file switched off with null."""
    found = {name: study for name, study in studies.items() if study is not None}
    if not found:
        raise ValueError("every study is null; keep at least one")
    return found


# Studies by name, as a field of the configuration.
STUDIES = (
    Annotated[dict[Name, Study | None], AfterValidator(_switched_on)],
    Field(
        description="name -> grid of federated runs; null switches off a study of an earlier file"
    ),
)


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    yield from _model(config)
    yield from _training(config)
    yield from _analysis(config)
    for name in config.studies:
        yield from _study(config, name)
    for index, kept in enumerate(config.workflow.keep_model_rounds):
        if kept > config.training.rounds:
            message = f"must not exceed training.rounds = {config.training.rounds}"
            yield ("workflow", "keep_model_rounds", index), kept, message


def _model(config: Any) -> Iterator[Problem]:
    model, needed = config.model, VOCABULARY[config.tokenizer.name]
    inner = model.expand * model.d_model
    if inner % model.headdim:
        message = f"must divide the inner width expand * d_model = {inner}"
        yield ("model", "headdim"), model.headdim, message
    elif (inner // model.headdim) % model.ngroups:
        message = f"must divide the number of heads, {inner // model.headdim}"
        yield ("model", "ngroups"), model.ngroups, message
    if model.d_model % (2 * model.attention_heads):
        message = f"must divide d_model = {model.d_model} into heads of even size (rotary pairs)"
        yield ("model", "attention_heads"), model.attention_heads, message
    if model.vocab_size < needed:
        message = f"tokenizer {config.tokenizer.name!r} has {needed} tokens; at least that"
        yield ("model", "vocab_size"), model.vocab_size, message


def _training(config: Any) -> Iterator[Problem]:
    training = config.training
    if training.device != "cuda":
        if training.precision == "float16":
            message = "float16 needs training.device 'cuda'; on cpu use float32 or bfloat16"
            yield ("training", "precision"), training.precision, message
        if training.kernels == "mamba_ssm":
            message = "mamba_ssm's kernels need training.device 'cuda'; on cpu use 'torch'"
            yield ("training", "kernels"), training.kernels, message
        if training.step == "cuda_graph":
            message = "CUDA graphs need training.device 'cuda'; on cpu use 'eager'"
            yield ("training", "step"), training.step, message


def _analysis(config: Any) -> Iterator[Problem]:
    for name in ("grid", "client_count", "backbone"):
        study = getattr(config.analysis, name)
        if study is not None and study not in config.studies:
            hint = "" if name == "grid" else ", or null"
            message = f"no such study; studies are {', '.join(config.studies)}{hint}"
            yield ("analysis", name), study, message


def _study(config: Any, name: str) -> Iterator[Problem]:
    study, where = config.studies[name], ("studies", name)
    known = config.partition.settings
    for index, setting in enumerate(study.settings):
        if setting not in known:
            message = f"not in partition.settings; known are {', '.join(known)}"
            yield (*where, "settings", index), setting, message
    for index, algorithm in enumerate(study.algorithms):
        if getattr(study.hyperparameters, algorithm) is None:
            message = f"its values are missing: add {'.'.join(where)}.hyperparameters.{algorithm}"
            yield (*where, "algorithms", index), algorithm, message
    for index, depth in enumerate(study.depths):
        if depth % 4 and set(study.backbones) - UNIFORM:
            message = "hybrid backbones place layers by quarters; use a multiple of 4"
            yield (*where, "depths", index), depth, message
    if config.training.kernels == "mamba_ssm":
        for index, backbone in enumerate(study.backbones):
            if set(BACKBONES[backbone](4)) - {MAMBA2, ATTENTION}:
                message = "mamba_ssm has no kernels for Sessa's layer; training.kernels: torch has"
                yield (*where, "backbones", index), backbone, message
