"""The part of the configuration that describes consensus over depth."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Len, Lt
from pydantic import Field

from fedscan.config.types import (
    Count,
    Grid,
    Name,
    NonNegative,
    Positive,
    Problem,
    Section,
    Seed,
    Share,
    Threads,
)
from fedscan.experiments.consensus.grid import FEDERATED, RANDOM, ROUND_LAST

Index = Annotated[int, Ge(0)]
Tokens = Annotated[int, Ge(2)]


class Shape(Section):
    """A Mamba2 language model with new values; names are mamba_ssm's."""

    d_model: Count = Field(description="channels n of the residual stream")
    depth: Count = Field(description="layers")
    d_state: Count = Field(description="state size m per head")
    d_conv: Annotated[int, Ge(2)] = Field(description="width of the causal convolution, tokens")
    expand: Count = Field(description="inner width as a multiple of d_model")
    headdim: Count = Field(description="channels per head")
    ngroups: Count = Field(description="groups of heads that share B and C")
    vocab_size: Count = Field(description="rows of the embedding before padding")
    pad_vocab_size_multiple: Count = Field(description="the vocabulary is padded to a multiple")


class ConsensusModel(Section):
    """A language model whose layers are iterated."""

    checkpoint: str = Field(
        description="'federated': the best global model of this configuration's runs; 'random': new"
        " values of the shape below; a folder or hub id with a Mamba2 checkpoint of mamba_ssm or"
        " transformers; or a model file below results/federated"
    )
    vocabulary: Count | None = Field(
        description="token ids are drawn below it; null: the checkpoint's own vocabulary"
    )
    paper: bool = Field(description="whether published values are shown beside this model's")
    shape: Shape | None = Field(default=None, description="of checkpoint 'random' only")


class Random(Section):
    """Weights and tokens of variants whose weights are redrawn."""

    law: Literal["mamba_ssm", "gaussian"] = Field(
        description="of a redrawn mixer's two projections: mamba_ssm's own initial values, or"
        " N(0, 1 / fan-in)"
    )
    per: Literal["layer", "layer_and_draw"] = Field(
        description="whether all draws of tokens see the same redrawn weights"
    )
    mean_cosine: Annotated[float, Ge(0), Lt(1)] | None = Field(
        description="expected cosine of two tokens at depth 0; null: the model's own embedding"
    )
    d_state: Count = Field(description="state size m of the analysed system")


class Variant(Section):
    """One way to iterate over depth; without keys: the model's own layers, visited in turn."""

    system: Literal["mixer", "analysed"] = Field(
        default="mixer",
        description="the model's layer, or the paper's simplified one (its weights are redrawn)",
    )
    weights: Literal["cycle", "repeat", "redraw"] = Field(
        default="cycle",
        description="all layers in turn; one layer again and again; new weights at every depth",
    )
    layers: Literal["all"] | Annotated[list[Index], Len(min_length=1)] | None = Field(
        default=None, description="which layers 'repeat' repeats, one curve each"
    )
    gate: Share = Field(
        default=1.0, description="share of the output gate; 0: removed, the norm after it stays"
    )
    silu: bool = Field(default=True, description="SiLU on B and C; x always has its own")
    conv: bool = Field(default=True, description="the causal convolution on x, B and C")
    update: Literal["residual", "sphere"] = Field(
        default="residual", description="x + tau F, or that scaled back to norm sqrt(n)"
    )
    tau: Positive = Field(default=1.0, description="factor of a layer's output F")


class Runs(Section):
    """Consensus of the federated study's models."""

    study: Name = Field(description="study whose runs are looked at")
    rounds: Grid[Literal["last"] | Index] = Field(
        description="rounds of the models: 'last', or of workflow.keep_model_rounds; the initial"
        " model, round 0, is always looked at"
    )
    variants: Grid[Name] = Field(description="names from consensus.variants, weights: cycle")
    tokens: Tokens = Field(description="tokens per draw")
    draws: Count = Field(description="independent draws of tokens")
    depth: Count = Field(description="layers applied; the model's own depth is looked at besides")


class Merges(Section):
    """Consensus of merged models beside the models they are made of."""

    merges: Grid[Literal["average", "best_task_arithmetic", "best_ties"]] = Field(
        description="merges of the last checkpoint epoch; 'best': of the sweep, by accuracy"
    )
    variants: Grid[Name] = Field(description="names from consensus.variants, weights: cycle")
    tokens: Tokens = Field(description="tokens per draw")
    draws: Count = Field(description="independent draws of tokens")
    depth: Count = Field(description="layers applied; the model's own depth is looked at besides")


class Theory(Section):
    """Random instances of the analysed system beside what is proved of them."""

    kernels: Grid[Literal["isotropic", "definite", "alternating", "indefinite"]] = Field(
        description="kinds of S_C^T S_B"
    )
    anisotropies: Grid[NonNegative] = Field(
        description="c_star of 'definite' kernels: how far they are from a multiple of I"
    )
    n: Annotated[int, Ge(2)] = Field(description="channels")
    m: Count = Field(description="state size; below n no kernel is definite, and c_star is null")
    tokens: Count = Field(description="tokens")
    instances: Count = Field(description="random instances per kernel")
    starts: Count = Field(description="random starts per instance")
    points: Count = Field(description="random points per instance and inequality")
    horizon: Positive = Field(description="time that is simulated")
    step: Positive = Field(description="of the integrator")


class Consensus(Section):
    """Do tokens reach consensus when Mamba2's layers are iterated over depth?"""

    seed: Seed = Field(description="of tokens, redrawn weights and random instances")
    tokens: Tokens = Field(description="tokens per draw")
    draws: Count = Field(description="independent draws of tokens; curves are means over them")
    depth: Count = Field(description="layers applied")
    source: Literal["uniform", "text"] = Field(
        description="tokens uniform over the vocabulary, or the first ones of validation sequences"
    )
    precision: Literal["float32", "float64"] = Field(description="of the iteration")
    device: Literal["cpu", "cuda"] = Field(description="of the iteration")
    threads: Threads = Field(description="CPU threads per job; part of a result's identity")
    draws_per_batch: Count = Field(description="draws computed together; changes no number")
    models: Annotated[dict[Name, ConsensusModel | None], Len(min_length=1)] = Field(
        description="name -> model; null takes one away that another file has"
    )
    random: Random
    variants: Annotated[dict[Name, Variant | None], Len(min_length=1)] = Field(
        description="name -> how layers are iterated; null takes one away"
    )
    runs: Runs | None = Field(description="consensus of federated runs; null: none")
    merging: Merges | None = Field(description="consensus of merges; null: none")
    theory: Theory


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    consensus = config.consensus
    for section in ("models", "variants"):
        if not any(getattr(consensus, section).values()):
            message = "at least one must not be null"
            yield ("consensus", section), sorted(getattr(consensus, section)), message
    for name, variant in consensus.variants.items():
        if variant is not None:
            for key, message in _variant(variant):
                yield ("consensus", "variants", name, key), getattr(variant, key), message
    for name, model in consensus.models.items():
        if model is not None:
            for key, message in _model(model, config):
                yield ("consensus", "models", name, key), getattr(model, key), message
    yield from _text(config)
    yield from _runs(config)
    if consensus.merging is not None:
        yield from _used_variants(consensus, "merging")


def _variant(variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.weights == "repeat" and variant.layers is None:
        yield "layers", "weights 'repeat' needs the layers to repeat: a list of indices, or all"
    if variant.weights != "repeat" and variant.layers is not None:
        yield "layers", f"only weights 'repeat' has layers; weights is {variant.weights!r}"
    if variant.system != "analysed":
        return
    if variant.weights != "redraw":
        yield "weights", "system 'analysed' has drawn weights: set weights: redraw"
    if variant.gate:
        yield "gate", "system 'analysed' has no gate: set gate: 0"
    if not variant.conv:
        yield "conv", "system 'analysed' has no convolution to leave out"
    if variant.update != "sphere":
        yield "update", "tokens of system 'analysed' live on a sphere: set update: sphere"


def _model(model: ConsensusModel, config: Any) -> Iterator[tuple[str, str]]:
    if (model.checkpoint == RANDOM) != (model.shape is not None):
        yield "shape", f"a shape belongs to checkpoint {RANDOM!r}, and to no other"
    if model.checkpoint == FEDERATED and not config.workflow.keep_final_model:
        message = "needs the runs' models: set workflow.keep_final_model: true"
        yield "checkpoint", message
    if model.shape is not None:
        if (model.shape.expand * model.shape.d_model) % (model.shape.headdim * model.shape.ngroups):
            yield "shape", "expand * d_model must be a multiple of headdim * ngroups"
        for name, variant in config.consensus.variants.items():
            layers = variant.layers if variant is not None else None
            if isinstance(layers, list) and max(layers) >= model.shape.depth:
                yield (
                    "shape",
                    f"variant {name!r} repeats layer {max(layers)}; layers of a model of depth"
                    f" {model.shape.depth} are 0 to {model.shape.depth - 1}",
                )
    multiple, rows = 1, None
    if model.shape is not None:
        multiple, rows = model.shape.pad_vocab_size_multiple, model.shape.vocab_size
    elif model.checkpoint == FEDERATED:
        multiple, rows = config.model.pad_vocab_size_multiple, config.model.vocab_size
    if rows is not None and model.vocabulary is not None:
        rows = -(-rows // multiple) * multiple
        if model.vocabulary > rows:
            yield "vocabulary", f"the embedding has {rows} rows"


def _text(config: Any) -> Iterator[Problem]:
    consensus, length = config.consensus, config.partition.sequence_length
    if consensus.source != "text":
        return
    sections: list[tuple[tuple[str, ...], Any]] = [(("consensus",), consensus)]
    for name in ("runs", "merging"):
        if getattr(consensus, name) is not None:
            sections.append((("consensus", name), getattr(consensus, name)))
    for place, section in sections:
        if section.tokens > length:
            message = f"source 'text' has partition.sequence_length = {length} tokens a sequence"
            yield (*place, "tokens"), section.tokens, message


def _runs(config: Any) -> Iterator[Problem]:
    consensus, workflow = config.consensus, config.workflow
    runs = consensus.runs
    if runs is None:
        return
    where = ("consensus", "runs")
    if runs.study not in config.studies:
        yield (*where, "study"), runs.study, f"expected one of {sorted(config.studies)}"
    yield from _used_variants(consensus, "runs")
    for index, found in enumerate(runs.rounds):
        place = (*where, "rounds", index)
        if found == ROUND_LAST:
            if not workflow.keep_final_model:
                message = "needs the runs' models: set workflow.keep_final_model: true"
                yield place, found, message
        elif found > config.training.rounds:
            yield place, found, f"must not exceed training.rounds = {config.training.rounds}"
        elif found and found not in workflow.keep_model_rounds:
            kept = workflow.keep_model_rounds
            message = f"its model is not kept: add it to workflow.keep_model_rounds = {kept}"
            yield place, found, message


def _used_variants(consensus: Any, section: str) -> Iterator[Problem]:
    names = getattr(consensus, section).variants
    known = {name for name, variant in consensus.variants.items() if variant is not None}
    for index, name in enumerate(names):
        place = ("consensus", section, "variants", index)
        if name not in known:
            message = f"no such variant; consensus.variants has {', '.join(sorted(known))}"
            yield place, name, message
        elif consensus.variants[name].weights != "cycle":
            weights = consensus.variants[name].weights
            message = f"only variants with weights: cycle are of a whole model; it has {weights!r}"
            yield place, name, message
