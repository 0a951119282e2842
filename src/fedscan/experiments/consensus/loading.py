"""Models to iterate: from runs, checkpoints or new values, as a subject with a digest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fedscan.experiments.comparison.models import SUFFIX, best, read
from fedscan.experiments.consensus.grid import FEDERATED, RANDOM
from fedscan.experiments.consensus.variants import Subject, placed_on
from fedscan.experiments.corpus.sequences import to_matrix
from fedscan.experiments.corpus.tables import SEQUENCES
from fedscan.io import parquet
from fedscan.io.digests import arrays_sha256
from fedscan.models.architecture import MAMBA2, Architecture, layout
from fedscan.models.depth_iteration import mixer_layers
from fedscan.models.initialise import initialise
from fedscan.models.language_model import LanguageModel
from fedscan.models.pretrained import empty_model
from fedscan.params.algebra import Params
from fedscan.pipeline.errors import under_key
from fedscan.pipeline.model_files import from_pretrained
from fedscan.seeds import derive

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Loaded(NamedTuple):
    """A model and where it comes from.

    Attributes:
        shape: architecture.
        model: without gradients, float32.
        source: 'federated', 'random', or the checkpoint.
        sha256: digest of its values.
        selected: of a federated model: job and value.
        val_ppl_last10: of a federated model.
    """

    shape: Architecture
    model: LanguageModel
    source: str
    sha256: str
    selected: str = ""
    val_ppl_last10: float | None = None


def load(
    section: Mapping[str, Any], jobs: Sequence[str], federated: Path, seed: int, key: str
) -> Loaded:
    """Read or make a model of the configuration.

    Args:
        section: one of ``consensus.models``.
        jobs: of checkpoint 'federated': folders of training jobs below ``federated``.
        federated: folder results/federated.
        seed: root seed of new values.
        key: the section's place, for errors.

    Returns:
        The model.

    Raises:
        ValueError: if there is no such model, or it has attention layers.
    """
    checkpoint = section["checkpoint"]
    if checkpoint == RANDOM:
        given = dict(section["shape"])
        mixers = layout(given.pop("depth"))
        return new(Architecture(mixers, attention_heads=1, chunk_size=256, **given), seed)
    if checkpoint == FEDERATED:
        chosen = best(federated, jobs)
        shape, params, _ = read(chosen.file)
        return Loaded(
            shape,
            with_params(shape, params),
            FEDERATED,
            digest(params),
            f"{chosen.job}/{chosen.value}",
            chosen.val_ppl_last10,
        )
    with under_key(f"{key}.checkpoint (a folder, a file, a hub id, {FEDERATED!r} or {RANDOM!r})"):
        if checkpoint.endswith(SUFFIX):
            shape, params, _ = read(Path(checkpoint).expanduser())
        else:
            shape, params = from_pretrained(checkpoint, "float32")
        others = [layer for layer, kind in enumerate(shape.mixers) if kind != MAMBA2]
        if others:
            kinds = " and ".join(sorted({shape.mixers[layer] for layer in others}))
            raise ValueError(
                f"{checkpoint}: layers {others} are {kinds}, which has neither gate nor interaction"
                " term; expected Mamba2 layers alone"
            )
    return Loaded(shape, with_params(shape, params), Path(checkpoint).name, digest(params))


def new(shape: Architecture, seed: int) -> Loaded:
    """Return a model with mamba_ssm's initial values, the one a run of that seed starts from.

    Args:
        shape: architecture.
        seed: root seed.

    Returns:
        The model.
    """
    model = initialise(shape, derive(seed, "initial model")).requires_grad_(False)
    return Loaded(shape, model, RANDOM, digest(dict(model.named_parameters())))


def with_params(shape: Architecture, params: Params) -> LanguageModel:
    """Return a model of given values; they are taken over, not copied.

    Args:
        shape: architecture.
        params: tied weights once.

    Returns:
        The model, without gradients.
    """
    model = empty_model(shape)
    tied = {**params, "lm_head.weight": params["backbone.embedding.weight"]}
    model.load_state_dict(tied, assign=True)
    return model.requires_grad_(False)


def digest(params: Params) -> str:
    """Return the digest of a model's values.

    Args:
        params: by name.

    Returns:
        Hexadecimal SHA-256 over the tensors in order of their names.
    """
    return arrays_sha256(params[name].detach().cpu().numpy() for name in sorted(params))


def subject(loaded: Loaded, precision: str, device: str) -> Subject:
    """Return what is iterated.

    Args:
        loaded: a model.
        precision: of the iteration, a key of ``DTYPES``.
        device: where it runs.

    Returns:
        Embedding and layers.
    """
    model = loaded.model.to(DTYPES[precision])
    layers = [placed_on(layer, device) for layer in mixer_layers(model)]
    return Subject(loaded.shape, model.backbone.embedding.weight.detach().to(device), layers)


def vocabulary(section: Mapping[str, Any], shape: Architecture, key: str) -> int:
    """Return the number that token ids are drawn below.

    Args:
        section: one of ``consensus.models``.
        shape: architecture of its model.
        key: the section's place, for errors.

    Raises:
        ValueError: if the embedding has fewer rows.
    """
    wanted = section["vocabulary"]
    if wanted is None:
        return shape.vocab_size
    if wanted > shape.padded_vocab_size:
        raise ValueError(
            f"{key}.vocabulary: {wanted}; the embedding has {shape.padded_vocab_size} rows"
        )
    return int(wanted)


def validation_text(path: Path, vocab_size: int) -> np.ndarray:
    """Return all validation sequences of a partition.

    Args:
        path: validation.parquet.
        vocab_size: ids must be below it.

    Returns:
        (count, length) uint16.
    """
    return to_matrix(parquet.read(path, SEQUENCES), path, vocab_size)
