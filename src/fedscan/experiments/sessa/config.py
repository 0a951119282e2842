"""The part of the configuration that describes Sessa's comparison."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Len
from pydantic import Field

from fedscan.config.algorithms import AlgorithmName, Hyperparameters
from fedscan.config.types import (
    Count,
    Grid,
    Momentum,
    NonNegative,
    OpenShare,
    Positive,
    Problem,
    Section,
    Seed,
    Share,
    Threads,
)
from fedscan.experiments.sessa import grid
from fedscan.models.sequence_shape import KINDS, is_whole

Mixer = Literal[tuple(KINDS)]  # type: ignore[valid-type]
TaskName = Literal["soup", "mqar", "stories", "recall"]
GainMax = Annotated[float, Gt(0), Le(1)]
HalfShare = Annotated[float, Ge(0), Le(0.5)]
Factors = Grid[Count]
# Special tokens of the mqar task, and the fewest symbols that a wrong one can be drawn from.
TWO = Annotated[int, Ge(2)]


class Models(Section):
    """The compared models: one block, another mixer."""

    mixers: Grid[Mixer] = Field(description="what is compared; sessa sets the parameters to match")
    d_model: Count = Field(description="width D of sessa, and of what is sessa less a part")
    depth: Count = Field(description="blocks")
    heads: Count = Field(description="heads of attention (mha)")
    forward_heads: Count | None = Field(
        description="heads of Sessa's forward attention; null: those of attention"
    )
    form: Literal["authors", "paper"] = Field(
        description="Sessa's layer with biases in all projections (released code), or without"
    )
    gain_max: GainMax = Field(description="largest gain of the feedback; 1 with form 'paper' alone")
    d_state: Annotated[int, Ge(8)] = Field(description="state size per head of Mamba2 mixers")
    headdim: Count = Field(description="channels per head of Mamba2 mixers")
    match: Literal["width", "none"] = Field(
        description="'width': mha and Mamba2 take the width, Mamba2 the state size too, whose total"
        " of parameters is closest to sessa's; 'none': all have d_model"
    )
    match_tolerance: Positive = Field(description="largest relative difference of the totals")


# What every task has.
TRAIN = Field(description="training sequences")
VALIDATION = Field(description="validation sequences")
TEST = Field(description="test sequences per factor")
TEST_FACTORS = Field(description="how many times longer test sequences are")


class Soup(Section):
    """SymbolSoup: two styled blocks in noise -> the pair of styles."""

    train: Count = TRAIN
    validation: Count = VALIDATION
    test: Count = TEST
    test_factors: Factors = TEST_FACTORS
    left_styles: Annotated[int, Ge(1), Le(16)] = Field(description="styles of the left family")
    right_styles: Annotated[int, Ge(1), Le(16)] = Field(description="styles of the right family")
    min_tokens: Count = Field(description="tokens with white space, 2 letters + 13, at least")
    max_tokens: Count = Field(description="at most; the number of letters is uniform between")
    min_block_share: HalfShare = Field(
        description="least share of the blocks' letters that either block has; released code: 0"
    )
    separators: Literal["compact", "published"] = Field(
        description="'published': blanks and line ends are tokens, twice the length"
    )


class Mqar(Section):
    """Diffuse multi-query associative recall."""

    train: Count = TRAIN
    validation: Count = VALIDATION
    test: Count = TEST
    test_factors: Factors = TEST_FACTORS
    pairs: Count = Field(description="stored pairs P")
    queries: Count = Field(description="queries Q, at most P")
    key_tokens: TWO = Field(description="symbols of a key; a distractor shares a prefix")
    value_tokens: Count = Field(description="symbols of a value")
    keys: TWO = Field(description="key symbols")
    values: Count = Field(description="value symbols")
    lag: Annotated[list[Count], Len(2, 2)] = Field(
        description="smallest and largest lag of training, tokens; factors multiply both"
    )
    distractor_share: Share = Field(description="share of noise that begins a distractor")


class LocalStories(Section):
    """The user's files with stories."""

    train: str = Field(description=".jsonl or .parquet with a column 'story' or 'text', or .txt")
    test: str = Field(description="the same, of the test split")
    origin: str | None = Field(description="column that clients are told apart by; null: none")


class HubStories(Section):
    """A dataset of stories on the Hugging Face hub."""

    repo: str = Field(description="dataset of the hub, or a folder laid out like one")
    revision: str | None = Field(description="commit or tag; null: the newest")
    column: str = Field(description="column with the story")
    origin: str | None = Field(description="column that clients are told apart by; null: none")


class Stories(Section):
    """Next-token modelling of short stories."""

    train: Count = TRAIN
    validation: Count = VALIDATION
    test: Count = TEST
    test_factors: Factors = TEST_FACTORS
    source: Literal["synthetic", "local", "huggingface"] = Field(
        description="where stories come from; 'synthetic' are made up"
    )
    tokenizer: Literal["bytes", "bpe"] = Field(
        description="'bpe': byte-level pairs, trained on the training split"
    )
    vocab_size: Annotated[int, Ge(258), Le(65535)] = Field(description="of a trained tokenizer")
    sequence_length: TWO = Field(description="tokens per sequence")
    local: LocalStories | None = Field(description="files of source 'local'")
    huggingface: HubStories


class Recall(Section):
    """Multi-query associative recall of Arora et al. (2023), over widths and numbers of pairs."""

    train: Count = TRAIN
    validation: Count = VALIDATION
    test: Count = TEST
    test_factors: Factors = TEST_FACTORS
    sequence_length: Annotated[int, Ge(4)] = Field(description="tokens, even")
    vocabulary: Annotated[int, Ge(6)] = Field(description="symbols: filler, keys, values")
    pairs: Grid[Count] = Field(description="numbers of stored pairs, in turn")
    power: Positive = Field(description="a of the gaps' density a x^(a-1); below 1 early is likely")
    widths: Grid[Count] = Field(
        description="widths D of all models, as in the published comparison"
    )


class Tasks(Section):
    """Tasks; null switches one off."""

    soup: Soup | None
    mqar: Mqar | None
    stories: Stories | None
    recall: Recall | None


class Steps(Section):
    """Optimiser steps per task."""

    soup: Count = Field(description="steps on soup")
    mqar: Count = Field(description="steps on mqar")
    stories: Count = Field(description="steps on stories")
    recall: Count = Field(description="steps on recall")


class CentralTraining(Section):
    """The schedule all models share."""

    steps: Steps
    batch_size: Count = Field(description="sequences per step")
    lrs: Grid[Positive] = Field(
        description="peak learning rates; each model's is chosen on validation, all try as many"
    )
    adam_betas: Annotated[list[Momentum], Len(2, 2)] = Field(description="AdamW beta1, beta2")
    adam_eps: Positive = Field(description="AdamW epsilon")
    weight_decay: NonNegative = Field(description="AdamW decoupled weight decay, of matrices")
    clip_norm: Positive = Field(description="global gradient norm above which steps are clipped")
    warmup_share: Share = Field(
        description="share of the steps with linear warm-up; then cosine to a tenth of the peak"
    )
    seeds: Grid[Seed] = Field(description="root seeds of initial models and batches")
    validate_every: Count = Field(description="steps between validations")
    eval_batch_size: Count = Field(description="sequences per evaluation pass")
    precision: Literal["float32", "bfloat16"] = Field(
        description="autocast of forward and backward; the feedback stays float32"
    )
    device: Literal["cpu", "cuda"] = Field(description="device of all of sessa's jobs")
    threads: Threads = Field(description="CPU threads per job; part of a result's identity")


class Federated(Section):
    """Federated training of the same models; clients hold the tasks' sources unequally."""

    tasks: Grid[Literal["soup", "stories"]] = Field(
        description="tasks whose sequences have sources"
    )
    mixers: Grid[Mixer] = Field(description="models")
    clients: Count = Field(description="number of clients K")
    betas: Grid[Share] = Field(
        description="heterogeneity: 0 every client has all sources equally, 1 only its own"
    )
    algorithms: Grid[AlgorithmName] = Field(description="algorithms to run")
    hyperparameters: Hyperparameters = Field(description="values per algorithm")
    gain_limits: Grid[Positive | None] = Field(
        description="the server clips |b_gamma| to it after every round; null: it does not"
    )
    rounds: Count = Field(description="communication rounds T")
    local_steps: Count = Field(description="local steps per round E")
    lr: Positive = Field(description="local AdamW learning rate")
    seeds: Grid[Seed] = Field(description="root seeds of initial models and batches")


class Diagnostics(Section):
    """What is measured on initial, trained and constructed models."""

    tasks: Grid[TaskName] = Field(description="tasks whose models are looked at")
    sequences: TWO = Field(description="test sequences; intervals resample them")
    lags: Annotated[int, Ge(16)] = Field(description="longest lag that is looked at, tokens")


class Theory(Section):
    """Random instances beside what is claimed of them."""

    logit_spreads: Grid[NonNegative] = Field(description="largest difference of random logits")
    gains: Grid[OpenShare] = Field(description="largest gains")
    retrieval: Grid[Annotated[list[Positive], Len(2, 2)]] = Field(
        description="[beta, k]: decay exponent in (0, 1) and layers of the constructed retrieval"
    )


class Speed(Section):
    """What stage ``sessa_speed`` measures; it is not part of ``all``."""

    lengths: Grid[Count] = Field(description="tokens per sequence")
    repeats: Count = Field(description="measurements, of which the median is kept")


class Sessa(Section):
    """Attention inside a feedback loop, compared in one block."""

    seed: Seed = Field(description="of the tasks' data and of random instances")
    models: Models
    tasks: Tasks
    training: CentralTraining
    federated: Federated | None = Field(description="federated training; null: none")
    diagnostics: Diagnostics
    theory: Theory
    speed: Speed


def rules(config: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Yields:
        (location, value, message) per problem.
    """
    sessa = config.sessa
    if not any(getattr(sessa.tasks, name) for name in Tasks.model_fields):
        yield ("sessa", "tasks"), None, "at least one task must not be null"
    yield from _models(sessa.models)
    yield from _matches(sessa)
    if sessa.tasks.soup is not None:
        yield from _soup(sessa.tasks.soup)
    if sessa.tasks.mqar is not None:
        yield from _mqar(sessa.tasks.mqar)
    if sessa.tasks.recall is not None:
        yield from _recall(sessa.tasks.recall, sessa.models)
    stories = sessa.tasks.stories
    if stories is not None and stories.source == "local" and stories.local is None:
        message = "source 'local' needs files: add sessa.tasks.stories.local"
        yield ("sessa", "tasks", "stories", "source"), stories.source, message
    if sessa.federated is not None:
        yield from _federated(sessa)
    for index, name in enumerate(sessa.diagnostics.tasks):
        if getattr(sessa.tasks, name) is None:
            place = ("sessa", "diagnostics", "tasks", index)
            yield place, name, f"sessa.tasks.{name} is null"
    for index, (beta, layers) in enumerate(sessa.theory.retrieval):
        place = ("sessa", "theory", "retrieval", index)
        if beta >= 1:
            yield place, [beta, layers], "beta, the first, must be below 1"
        if layers != int(layers):
            yield place, [beta, layers], "the number of layers, the second, must be whole"


def _models(models: Models) -> Iterator[Problem]:
    where = ("sessa", "models")
    for key in ("heads", "forward_heads"):
        heads = getattr(models, key)
        if heads is not None and models.d_model % (2 * heads):
            message = (
                f"must divide d_model = {models.d_model} into heads of even size (rotary pairs)"
            )
            yield (*where, key), heads, message
    if models.gain_max == 1 and models.form != "paper":
        message = "1 goes with form 'paper' alone; form 'authors' takes less, e.g. 0.999"
        yield (*where, "gain_max"), models.gain_max, message


def _matches(sessa: Sessa) -> Iterator[Problem]:
    section = sessa.model_dump(mode="json")
    if list(_models(sessa.models)):
        return
    asked = {*sessa.models.mixers, *(sessa.federated.mixers if sessa.federated else ())}
    for task in grid.tasks(section):
        for width, mixer in itertools.product(grid.widths(section, task), sorted(asked)):
            try:
                found = grid.shape(section, task, mixer, width)
            except ValueError as error:
                place = ("sessa", "models", "match_tolerance")
                yield place, sessa.models.match_tolerance, f"task {task}: {error}"
                continue
            if not is_whole(found):
                place = ("sessa", "models", "headdim" if "mamba2" in mixer else "heads")
                message = f"{mixer} of width {found.d_model} (task {task}) cannot be divided so"
                yield place, getattr(sessa.models, place[-1]), message


def _soup(soup: Soup) -> Iterator[Problem]:
    where = ("sessa", "tasks", "soup")
    if soup.min_tokens > soup.max_tokens:
        message = f"must not exceed max_tokens = {soup.max_tokens}"
        yield (*where, "min_tokens"), soup.min_tokens, message
    elif soup.min_tokens < 23:
        yield (*where, "min_tokens"), soup.min_tokens, "fewer than 5 letters; at least 23 tokens"
    elif (soup.max_tokens - 13) // 2 < -(-(soup.min_tokens - 13) // 2):
        message = "no number of letters M has 2 M + 13 tokens between min_tokens and max_tokens"
        yield (*where, "max_tokens"), soup.max_tokens, message
    classes = soup.left_styles * soup.right_styles
    if classes < 2:
        message = "left_styles * right_styles is 1: one class leaves nothing to learn"
        yield (*where, "left_styles"), soup.left_styles, message
    for key in ("train", "validation", "test"):
        if getattr(soup, key) % classes:
            message = f"must be a multiple of the {classes} classes"
            yield (*where, key), getattr(soup, key), message


def _mqar(mqar: Mqar) -> Iterator[Problem]:
    where = ("sessa", "tasks", "mqar")
    width = mqar.key_tokens + mqar.value_tokens + 2
    low, high = mqar.lag
    if mqar.queries > mqar.pairs:
        yield (*where, "queries"), mqar.queries, f"must not exceed pairs = {mqar.pairs}"
    if mqar.keys**mqar.key_tokens < 2 * mqar.pairs:
        message = f"{mqar.keys}^{mqar.key_tokens} keys; at least 2 pairs = {2 * mqar.pairs}"
        yield (*where, "keys"), mqar.keys, message
    if low < width + 1:
        message = f"the nearest possible lag is key_tokens + value_tokens + 3 = {width + 1}"
        yield (*where, "lag", 0), low, message
    spread = (mqar.pairs + mqar.queries - 2) * width
    if high - low < spread:
        message = f"the lags of one sequence span {spread} positions; at least {low + spread}"
        yield (*where, "lag", 1), high, message


def _recall(recall: Recall, models: Models) -> Iterator[Problem]:
    where = ("sessa", "tasks", "recall")
    heads = models.forward_heads or models.heads
    if recall.sequence_length % 2:
        yield (*where, "sequence_length"), recall.sequence_length, "must be even"
    for index, pairs in enumerate(recall.pairs):
        if 4 * pairs > recall.sequence_length:
            message = f"pairs and queries need {4 * pairs} of {recall.sequence_length} tokens"
            yield (*where, "pairs", index), pairs, message
        if pairs > recall.vocabulary // 2 - 1:
            message = f"vocabulary {recall.vocabulary} has {recall.vocabulary // 2 - 1} keys"
            yield (*where, "pairs", index), pairs, message
    for index, width in enumerate(recall.widths):
        if width % (2 * heads):
            message = f"must be a multiple of 2 heads = {2 * heads} (rotary pairs)"
            yield (*where, "widths", index), width, message


def _federated(sessa: Sessa) -> Iterator[Problem]:
    federated, where = sessa.federated, ("sessa", "federated")
    if federated is None:
        return
    for index, name in enumerate(federated.tasks):
        task = getattr(sessa.tasks, name)
        if task is None:
            yield (*where, "tasks", index), name, f"sessa.tasks.{name} is null"
        elif task.train < federated.clients:
            message = f"sessa.tasks.{name} has {task.train} training sequences"
            yield (*where, "clients"), federated.clients, message
    for index, algorithm in enumerate(federated.algorithms):
        if getattr(federated.hyperparameters, algorithm) is None:
            key = ".".join((*where, "hyperparameters", algorithm))
            yield (*where, "algorithms", index), algorithm, f"its values are missing: add {key}"
