"""Rules between keys of the configuration, which one key's type and range cannot say."""

from collections.abc import Iterator
from typing import Any

from fedscan.config.algorithms import Hyperparameters
from fedscan.config.compose import Config
from fedscan.experiments.merging.rules import merging_problems

Problem = tuple[tuple[str | int, ...], Any, str]
VOCABULARY = {"bytes": 257, "gpt2": 50257}


def broken_rules(config: Config) -> list[Problem]:
    """List what is wrong between keys.

    Args:
        config: a configuration whose single keys are valid.

    Returns:
        (location, value, message) per problem.
    """
    return [
        *_data(config),
        *_model(config),
        *_training(config),
        *_synthetic(config),
        *_analysis(config),
        *merging_problems(config),
        *(problem for name in config.studies for problem in _study(config, name)),
    ]


def _data(config: Config) -> Iterator[Problem]:
    paths = config.data.local.paths
    if config.data.source == "local" and not paths:
        message = "source 'local' needs at least one file, folder or glob"
        yield ("data", "local", "paths"), paths, message


def _model(config: Config) -> Iterator[Problem]:
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


def _training(config: Config) -> Iterator[Problem]:
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


def _synthetic(config: Config) -> Iterator[Problem]:
    synthetic, learners = config.synthetic, config.synthetic.learners
    if synthetic.train_sequences % learners.batch_size:
        message = f"must divide synthetic.train_sequences = {synthetic.train_sequences}"
        yield ("synthetic", "learners", "batch_size"), learners.batch_size, message
    if learners.updates % learners.checkpoint_every:
        message = f"must divide synthetic.learners.updates = {learners.updates}"
        yield ("synthetic", "learners", "checkpoint_every"), learners.checkpoint_every, message
    if len(learners.bound_checkpoints) < 2:
        message = "at least two: neighbours along training are compared with one another"
        yield ("synthetic", "learners", "bound_checkpoints"), learners.bound_checkpoints, message
    for index, update in enumerate(learners.bound_checkpoints):
        if update % learners.checkpoint_every or update > learners.updates:
            message = (
                f"must be a multiple of checkpoint_every = {learners.checkpoint_every},"
                f" at most updates = {learners.updates}"
            )
            yield ("synthetic", "learners", "bound_checkpoints", index), update, message
    if synthetic.evaluation.sequences > synthetic.test_sequences:
        message = f"must not exceed synthetic.test_sequences = {synthetic.test_sequences}"
        yield ("synthetic", "evaluation", "sequences"), synthetic.evaluation.sequences, message
    yield from _stacks(config)
    yield from _students(config)


def _analysis(config: Config) -> Iterator[Problem]:
    for name in ("grid", "client_count", "backbone"):
        study = getattr(config.analysis, name)
        if study is not None and study not in config.studies:
            hint = "" if name == "grid" else ", or null"
            message = f"no such study; studies are {', '.join(config.studies)}{hint}"
            yield ("analysis", name), study, message


def _stacks(config: Config) -> Iterator[Problem]:
    synthetic, stacks = config.synthetic, config.synthetic.stacks
    where = ("synthetic", "stacks")
    for name in ("d_input", "d_state"):
        if getattr(stacks, name) not in getattr(synthetic, name):
            message = f"must be one of synthetic.{name} = {getattr(synthetic, name)}"
            yield (*where, name), getattr(stacks, name), message
    for index, rho in enumerate(stacks.rhos):
        if rho not in synthetic.rhos:
            message = f"must be one of synthetic.rhos = {synthetic.rhos}"
            yield (*where, "rhos", index), rho, message
    if stacks.length > synthetic.sequence_length:
        message = f"must not exceed synthetic.sequence_length = {synthetic.sequence_length}"
        yield (*where, "length"), stacks.length, message
    if stacks.sequences > synthetic.test_sequences:
        message = f"must not exceed synthetic.test_sequences = {synthetic.test_sequences}"
        yield (*where, "sequences"), stacks.sequences, message


def _students(config: Config) -> Iterator[Problem]:
    synthetic, students = config.synthetic, config.synthetic.federated
    where = ("synthetic", "federated")
    for name, key in (("d_input", "d_input"), ("d_state", "d_state"), ("rho", "rhos")):
        if getattr(students.core, name) not in getattr(synthetic, key):
            message = f"must be one of synthetic.{key} = {getattr(synthetic, key)}"
            yield (*where, "core", name), getattr(students.core, name), message
    if students.evaluate_every > students.rounds:
        message = f"must not exceed synthetic.federated.rounds = {students.rounds}"
        yield (*where, "evaluate_every"), students.evaluate_every, message
    if students.subset > synthetic.train_sequences:
        message = f"must not exceed synthetic.train_sequences = {synthetic.train_sequences}"
        yield (*where, "subset"), students.subset, message
    for name, study in students.studies.items():
        for index, clients in enumerate(study.clients):
            if synthetic.train_sequences % clients:
                message = f"must divide synthetic.train_sequences = {synthetic.train_sequences}"
                yield (*where, "studies", name, "clients", index), clients, message
        for index, algorithm in enumerate(study.algorithms):
            if getattr(study.hyperparameters, algorithm) is None:
                key = ".".join((*where, "studies", name, "hyperparameters", algorithm))
                message = f"its values are missing: add {key}"
                yield (*where, "studies", name, "algorithms", index), algorithm, message
        yield from _pulls(study.hyperparameters, synthetic.learners.lr, (*where, "studies", name))


def _pulls(
    hyperparameters: Hyperparameters, lr: float, where: tuple[str, ...]
) -> Iterator[Problem]:
    """Theorem B.6 and Appendix E need steps that do not overshoot the pull to the broadcast."""
    for algorithm, name in (("fedprox", "mu"), ("feddyn", "alpha")):
        chosen = getattr(hyperparameters, algorithm)
        for index, value in enumerate(getattr(chosen, name) if chosen else ()):
            if lr * value > 1:
                message = f"synthetic.learners.lr * {name} must not exceed 1; lr is {lr}"
                yield (*where, "hyperparameters", algorithm, name, index), value, message


def _study(config: Config, name: str) -> Iterator[Problem]:
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
        if depth % 4 and set(study.backbones) != {"mamba2"}:
            message = "backbones with attention place it by quarters; use a multiple of 4"
            yield (*where, "depths", index), depth, message
